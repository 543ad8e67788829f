"""What every room rests on: runner, facts between sources, state and target files, shards, logging."""
