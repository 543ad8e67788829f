"""Reads groups and their offset commits."""
