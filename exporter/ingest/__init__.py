"""What clients, Spark drivers and audits post to ``/ingest/...``."""
