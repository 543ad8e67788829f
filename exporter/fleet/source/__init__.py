"""Sources of the fleet: agents, and the lists of them."""
