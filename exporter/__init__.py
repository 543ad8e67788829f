"""kafka-eos-exporter: observability exporter and alerting agent for exactly-once (EOS) on Kafka."""

__version__ = "0.2.0"
