"""What happened on a cluster, kept as events: derived from the facts of the sources, written to ``state.dir``."""
