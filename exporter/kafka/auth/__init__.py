"""Credentials: SASL mechanisms, OAuth tokens, key and trust stores, TLS contexts."""
