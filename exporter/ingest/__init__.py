"""What clients, Spark drivers and audits hand in at ``/ingest/...``."""
