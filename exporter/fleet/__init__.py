"""One page over many agents: asks for their status, and merges replicas and shards to clusters."""
