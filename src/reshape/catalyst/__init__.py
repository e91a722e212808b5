"""Spark's optimized plans as flows: which of their operators hosts run, which stay with Spark, and why."""
