"""What `make demo` shows: a real local Kafka and applications that go wrong on purpose."""
