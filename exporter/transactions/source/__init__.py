"""Reads the transaction log, and the coordinators."""
