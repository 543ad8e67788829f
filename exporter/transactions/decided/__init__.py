"""What was decided about transactions, and what their markers show: the judgement, torn transactions."""
