"""Clients and wire facts of Kafka: properties, requests (KIP-664), offsets, the transaction log."""
