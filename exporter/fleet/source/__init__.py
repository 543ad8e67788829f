"""What the fleet asks: agents, and where they are listed."""
