"""Flink jobs as their KafkaSink's transactional ids show them: rhythm, precommitted transactions, clean-ups."""
