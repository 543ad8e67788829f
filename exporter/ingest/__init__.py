"""The documents that clients, Spark drivers and audits post to ``/ingest/...``."""
