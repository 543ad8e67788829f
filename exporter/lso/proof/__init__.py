"""The evidence that a transaction hangs: the rules, and the reads that they need."""
