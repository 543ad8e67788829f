"""The JVMs of brokers: requests of the transaction protocol."""
