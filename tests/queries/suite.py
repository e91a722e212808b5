"""All queries of the suite, by name."""

from __future__ import annotations

from . import frames, tpcds, tpch
from .query import Query

QUERIES: dict[str, Query] = {query.name: query for query in (*tpch.QUERIES, *tpcds.QUERIES, *frames.QUERIES)}
