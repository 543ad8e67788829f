"""The commands of the terminal. Each module has ``add_to(commands)`` and sets ``command`` on what was parsed."""
