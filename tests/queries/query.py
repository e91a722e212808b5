"""A query of the suite: SQL text or DataFrame code over the tables of a session, and what is known of its answer."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Query:
    """``ordered``: it ends with an order in which no two rows are equal, so that the order is part of the answer."""

    name: str
    build: Callable[[SparkSession], DataFrame]
    text: str
    ordered: bool = False


def sql(name: str, text: str, *, ordered: bool = False) -> Query:
    dedented = textwrap.dedent(text).strip()
    return Query(name, lambda spark: spark.sql(dedented), dedented, ordered)
