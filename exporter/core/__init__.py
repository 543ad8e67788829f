"""The base of every other package: runner, facts between sources, state and target files, logging."""
