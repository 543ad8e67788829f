"""Results of audits, from files and posts: the audit itself is ``exporter.jobs.audit``."""
