"""Sessions with the tables of the suite, one for each kind of data, and what Spark answers there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from .running import Answer, new_session, spark_answer
from .suite import QUERIES
from .tables import KINDS, TINY, make_tables, register


@pytest.fixture(scope="session")
def sessions(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, SparkSession]:
    """By kind of data."""
    folder = tmp_path_factory.mktemp("queries")
    make_tables(folder, TINY)
    made = {kind: new_session(spark) for kind in KINDS}
    for kind, session in made.items():
        register(session, Path(folder), kind)
    return made


@pytest.fixture(scope="session")
def expected(sessions: dict[str, SparkSession]) -> Callable[[str, str], Answer]:
    """Spark's answer to a query on a kind of data, computed once."""

    @cache
    def answer(name: str, kind: str) -> Answer:
        return spark_answer(QUERIES[name].build(sessions[kind]))

    return answer
