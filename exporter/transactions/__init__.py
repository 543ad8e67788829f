"""From the records of ``__transaction_state`` to the outcome of every transaction."""
