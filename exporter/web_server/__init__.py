"""The HTTP server: connections, TLS, users, limits. It imports no subject."""
