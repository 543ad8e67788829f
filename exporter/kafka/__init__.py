"""Clients and wire facts of Kafka: properties, requests (KIP-664), offsets, the transaction log."""

from exporter.core.bare_packages import bare

bare("kafka")  # before any module imports a message definition: 12 MB of clients
