"""Spark Structured Streaming, as its listener, its event log and its checkpoints tell of it."""
