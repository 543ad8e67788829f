"""Alerts, recording rules, routing and runbooks, from one table over the catalogue's handles.

This package evaluates no rule: it writes text for Prometheus and Alertmanager, into ``generated/``.
"""
