"""The truth about a run, found without the product: nothing of it is imported here, which a test holds."""
