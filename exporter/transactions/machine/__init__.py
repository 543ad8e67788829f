"""From records of ``__transaction_state`` to events: the state machine of a partition of the log."""
