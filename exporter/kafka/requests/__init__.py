"""Requests to brokers (Metadata, ListOffsets, KIP-664, groups) and their answers as frozen values."""
