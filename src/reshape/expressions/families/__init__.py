"""The entries of the table, by family. Importing this package fills the table."""

from reshape.expressions.families import arithmetic, booleans, casts, comparison, conditionals, dates

__all__ = ["arithmetic", "booleans", "casts", "comparison", "conditionals", "dates"]
