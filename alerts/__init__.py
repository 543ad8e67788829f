"""Alerts, recording rules, routing and runbooks, from one table over the catalogue's handles.

``python`` never evaluates a rule: this package writes text for Prometheus and Alertmanager, into ``generated/``.
"""
