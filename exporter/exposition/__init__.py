"""Snapshots to the text that Prometheus scrapes."""
