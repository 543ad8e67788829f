"""Reads last stable offsets, and the transactions that hold them."""
