"""Kafka Streams, as its JVMs report it."""
