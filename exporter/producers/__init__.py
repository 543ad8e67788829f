"""Producers, as their JVMs and librdkafka report them."""
