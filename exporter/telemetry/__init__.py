"""Metrics of Kafka clients in the form of OTLP (OpenTelemetry protocol), as pushed by KIP-714 receivers and agents."""
