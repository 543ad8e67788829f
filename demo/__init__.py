"""A real local Kafka and workloads that go wrong on purpose: what ``make demo`` shows and end-to-end tests start."""
