"""From the events of the state machine to counts by application."""
