"""Exploratory analysis on skewed data with PySpark."""

from importlib.metadata import version as _version

__version__ = _version("reshape")
