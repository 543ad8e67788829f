"""From the records of ``__transaction_state`` to what became of every transaction."""
