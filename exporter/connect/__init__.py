"""What Kafka Connect says of itself, by its REST API and by its workers' MBeans, as frozen values."""
