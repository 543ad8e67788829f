"""The last stable offset: when a partition is stalled, which transaction holds it, and what to do about it."""
