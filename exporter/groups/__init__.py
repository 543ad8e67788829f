"""Consumer groups: lag of read_committed readers, and offset commits."""
