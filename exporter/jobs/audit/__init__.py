"""The audit of topics: the Spark job and its result."""
