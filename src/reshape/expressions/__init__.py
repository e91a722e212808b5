"""Spark's expressions that Arrow can compute with exactly Spark's results; all others are refused with a reason."""
