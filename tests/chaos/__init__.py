"""The proof on three real brokers: faults by seed, an oracle of its own code, and a verdict. ``make chaos`` runs it."""
