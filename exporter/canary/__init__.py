"""The canary: own transactions through every coordinator, to distinguish failures of cluster and applications.

It is a command of its own and the only part of the program that writes to Kafka; ``run`` never imports it.
"""
