"""Clients and wire facts of Kafka: properties, requests (KIP-664), offsets, the transaction log."""

from exporter.kafka.definitions import without_clients

without_clients()  # before any module of this package imports kafka-python
