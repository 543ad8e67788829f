"""Real brokers, Connect, Streams, Flink, Spark, PostgreSQL and agents, as context managers for tests and the demo."""
