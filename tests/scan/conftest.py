"""What a planned scan reads, compared with what Spark reads."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.types as pat
import pytest

from reshape.plan.types import to_arrow
from reshape.scan.errors import NotReadable
from reshape.scan.planning import plan_scan
from reshape.scan.reading import read_split
from reshape.scan.scan import Scan

# Small enough for many splits in the few kilobytes that tests write; opening a file counts as much by default.
SMALL_SPLITS = {"spark.sql.files.maxPartitionBytes": "4096", "spark.sql.files.openCostInBytes": "0"}


@pytest.fixture
def session(spark: Any) -> Any:
    """A session whose settings a test may change."""
    return spark.newSession()


@pytest.fixture
def small_splits(session: Any) -> Any:
    for name, value in SMALL_SPLITS.items():
        session.conf.set(name, value)
    return session


def counted(table: pa.Table) -> list[str]:
    """The rows as a multiset. Dates and timestamps as numbers: Python has fewer years than Spark."""
    for number, field in enumerate(table.schema):
        if pat.is_timestamp(field.type):
            table = table.set_column(number, field.name, table.column(number).cast(pa.int64()))
        elif pat.is_date(field.type):
            table = table.set_column(number, field.name, table.column(number).cast(pa.int32()))
    columns = [table.column(number).to_pylist() for number in range(table.num_columns)]
    return sorted(map(repr, zip(*columns, strict=True)))


def read_all(scan: Scan, **options: Any) -> pa.Table:
    """All splits, as a task has them: pickled."""
    scan = pickle.loads(pickle.dumps(scan))
    batches = [batch for split in scan.splits for batch in read_split(scan, split, **options)]
    for batch in batches:
        assert batch.schema.equals(scan.schema)
        assert batch.num_rows > 0
        batch.validate(full=True)
    return pa.Table.from_batches(batches, schema=scan.schema)


@pytest.fixture
def same_as_spark() -> Callable[[Any], Scan]:
    """Asserts that a DataFrame is read as Spark reads it, and gives the scan."""

    def check(df: Any) -> Scan:
        scan = plan_scan(df)
        assert scan.schema.equals(to_arrow(df.schema))
        assert counted(read_all(scan)) == counted(df.toArrow().cast(scan.schema))
        return scan

    return check


@pytest.fixture
def reason() -> Callable[[Any], str]:
    """Asserts that a DataFrame is refused, and says why."""

    def refused(df: Any) -> str:
        with pytest.raises(NotReadable) as error:
            plan_scan(df)
        return str(error.value)

    return refused
