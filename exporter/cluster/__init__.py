"""One Kafka cluster, as all sources on it share it."""
