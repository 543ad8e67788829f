"""A model of what Kafka does with transactions, explored to its end: every case, not only drawn ones."""
