"""Connections to brokers: TCP, TLS, SASL, and one request at a time."""
