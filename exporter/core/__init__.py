"""What every other package depends on: runner, facts between sources, state and target files, shards, logging."""
