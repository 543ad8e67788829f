"""Spark: the history of transactions and the audit of topics. Besides ``listener.py`` the only home of pyspark."""
