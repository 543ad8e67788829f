"""Reads the JVMs of producers, and what librdkafka posts."""
