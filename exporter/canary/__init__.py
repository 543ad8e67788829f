"""The canary: transactions of its own through every coordinator, so that the cluster is told from its applications.

It is a command of its own and the only part of the program that writes to Kafka; ``run`` never imports it.
"""
