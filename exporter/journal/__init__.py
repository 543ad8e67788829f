"""The journal of a cluster: events derived from the facts of the sources, written to ``state.dir``."""
