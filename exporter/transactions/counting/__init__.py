"""From the events of the state machine, or from polling, to counts by application."""
