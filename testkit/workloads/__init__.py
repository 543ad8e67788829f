"""Clients that keep their own books: what they report is what the broker should have seen, no more and no less."""
