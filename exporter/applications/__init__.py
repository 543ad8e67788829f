"""Which application a transactional.id belongs to."""
