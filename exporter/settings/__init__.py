"""The settings below their root: what a section is, how its values are read, and every problem with its path."""
