"""Layouts of requests that kafka-python does not know, in its form: the groups of KIP-848, KIP-932 and KIP-1071."""
