"""The history of transactions: the Spark job, its table and its report."""
