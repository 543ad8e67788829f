"""Formats of tables that Spark writes: Iceberg and Delta. What is different between them is here, and nowhere else."""
