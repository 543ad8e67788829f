"""The result of an audit, and the files that hold it."""
