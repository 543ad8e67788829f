"""The settings files of Kafka clients, held against what exactly-once or at-least-once needs."""
