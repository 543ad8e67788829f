"""Checks of Kafka clients' settings files for exactly-once or at-least-once."""
