"""Grafana dashboards over the catalogue: one module each, in grafanalib, made modern by one normaliser.

Needs ``pip install kafka-eos-exporter[generate]``; the results are committed in ``generated/``.
"""
