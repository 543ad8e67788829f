"""What is shown of a cluster: one description for JSON and its schema, terminal, page and ``top``."""
