"""Limits for foreign input: files, JSON and YAML, before and during parsing; printable names."""
