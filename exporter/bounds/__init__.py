"""Bounds of what is read of others: files, JSON and YAML, before and while they are parsed; names made printable."""
