"""Kafka Connect, by its REST API and by its workers' MBeans, as frozen values."""
