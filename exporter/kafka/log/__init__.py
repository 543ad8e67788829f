"""Records of topics: the live tail, and records by their offset or time."""
