"""Runs a generated flow in one of three ways: by threads, on Spark, and as Spark's own query."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import reshape
from reshape.flows import Flow
from reshape.host.host import HostSettings
from reshape.hosted import HostedFlow
from reshape.plan.types import to_spark
from reshape.testing import Cut, run_flow

from .data import make
from .files import read_back
from .steps import Case, build

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def hosted(flow: Flow) -> HostedFlow:
    """The one flow that a query is."""
    (only,) = flow._query().flows
    return only


class Rig:
    """A case with its tables and DataFrames. With a ``directory`` these read Parquet files, by the hosts of a flow."""

    def __init__(self, spark: Any, case: Case, directory: Path | None = None) -> None:
        self.case = case
        self._spark = spark
        self.tables: list[pa.Table] = []
        for data in case.inputs:
            self.tables.append(make(data, self.tables))
        self.frames = [
            spark.createDataFrame(table) if directory is None else read_back(spark, table, directory / str(number))
            for number, table in enumerate(self.tables)
        ]

    def expected(self) -> pa.Table:
        # In one piece: for so few rows Spark's tasks cost more than their work.
        return build(self.case.flow, [df.coalesce(1) for df in self.frames], lambda df: df).toArrow()

    def flow(self) -> Flow:
        made: Flow = build(self.case.flow, self.frames, self._read)
        return made

    def by_threads(self) -> pa.Table:
        return self.by(self._threads)

    def by(self, run: Callable[[HostedFlow], pa.Table]) -> pa.Table:
        """The answer of the whole query, what hosts do of it run by something else than Spark."""

        def made(flow: HostedFlow, shown: StructType | None) -> DataFrame:
            schema = shown or to_spark(flow.plan().output)
            df: DataFrame = self._spark.createDataFrame(run(flow).rename_columns(schema.names), schema)
            return df

        return self.flow()._query().result(made).toArrow()

    def on_spark(self) -> pa.Table:
        return self.flow().toDF().toArrow()

    def _threads(self, flow: HostedFlow) -> pa.Table:
        read = {number: source.scan for number, source in enumerate(flow.sources) if source.scan is not None}
        # A flow may have Spark compute on a source; the threads take what comes of that.
        frames = [source.df if source.scan is None else source.df.limit(0) for source in flow.sources]
        cut = Cut(self.case.seed, self.case.partitions, self.case.batch_rows)
        settings = HostSettings(self.case.queue_bytes, self.case.spill)
        return run_flow(flow.plan(), [df.toArrow() for df in frames], cut, settings=settings, scans=read)

    def _read(self, df: Any) -> Flow:
        case = self.case
        return reshape.flow(
            df,
            name=f"seed-{case.seed}",
            hosts=case.hosts,
            workers=case.workers,
            queue_bytes=case.queue_bytes,
            spill=case.spill,
            joins="all",
        )
