"""Which applications write in transactions, where to, with which clients, and who writes beside them."""
