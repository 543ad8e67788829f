"""Spark Structured Streaming, from its listener, its event log and its checkpoints."""
