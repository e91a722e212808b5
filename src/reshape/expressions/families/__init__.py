"""The entries of the table, by family. Importing this package fills the table."""

from reshape.expressions.families import booleans, comparison, conditionals

__all__ = ["booleans", "comparison", "conditionals"]
