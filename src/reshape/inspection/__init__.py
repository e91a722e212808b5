"""The skew doctor: which keys of a query are hot, what Spark would do about them, and what flows would do."""
