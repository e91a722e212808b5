"""The table as a page of the documentation: which of Spark's expressions are there, and for what."""

from __future__ import annotations

from collections import defaultdict

from reshape.expressions.table import table

_HEAD = """# Expressions outside of Spark

A host that reads files by itself computes the filters and columns of Spark's plan on Arrow batches. It does so only for
the expressions of this table, whose results are Spark's bit for bit: nulls, NaN, overflow, rounding, zones, and errors
under ANSI rules for the rows that reach them. An expression that is not here, or not for its types, is refused with a
reason (`NotExact`), and its source is read by Spark.

This page is made by `reshape.expressions.listing.page()`; a test holds that it is up to date.

| expressions | for |
|---|---|
| columns | all types that Arrow has; passed on as they are |
| constants | numbers, booleans, strings, binary, dates, timestamps |
"""

_FOOT = """
Not exact, and so not here: printing and parsing of floats, which Java does in its own way and differently by version;
powers and logarithms, whose last bit depends on the library; regular expressions (Java's are not Arrow's); decimals
whose result is rounded on the way; collations other than `UTF8_BINARY`; `char` and `varchar`; intervals.

Where several rows of a batch fail, the error names one of the failures, perhaps not the one that Spark meets first. A
string column with bytes that are no UTF-8 makes functions that count letters fail.
"""


def page() -> str:
    """The whole page as Markdown."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name, entry in sorted(table().items()):
        groups[entry.holds_for].append(f"`{name}`")
    rows = sorted((", ".join(names), holds_for) for holds_for, names in groups.items())
    return _HEAD + "".join(f"| {names} | {holds_for} |\n" for names, holds_for in rows) + _FOOT
