"""The settings below their root: sections, values, and every problem with its path."""
