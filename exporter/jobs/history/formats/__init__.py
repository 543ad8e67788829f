"""The formats of the table that ``history run`` writes, each a ``HistoryTable``."""
