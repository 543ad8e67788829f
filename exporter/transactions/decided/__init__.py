"""The decisions about transactions, and their markers: the judgement, torn transactions."""
