"""Kafka's client properties: parsed, checked, and translated for each client."""
