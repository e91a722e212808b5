"""Runs a generated flow in one of three ways: by threads, on Spark, and as Spark's own query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import reshape
from reshape.flows import Flow
from reshape.host.host import HostSettings
from reshape.plan.physical import PhysicalPlan
from reshape.scan.scan import Scan
from reshape.testing import Cut, OnExecution, run_flow

from .data import make
from .files import read_back
from .steps import Case, build


def plan_of(flow: Flow) -> PhysicalPlan:
    return flow._plan(flow._settings())


class Rig:
    """A case with its tables and DataFrames. With a ``directory`` these read Parquet files, by the hosts of a flow."""

    def __init__(self, spark: Any, case: Case, directory: Path | None = None) -> None:
        self.case = case
        self._on_files = directory is not None
        self.tables: list[pa.Table] = []
        for data in case.inputs:
            self.tables.append(make(data, self.tables))
        self._frames = [
            spark.createDataFrame(table) if directory is None else read_back(spark, table, directory / str(number))
            for number, table in enumerate(self.tables)
        ]

    def expected(self) -> pa.Table:
        # In one piece: for so few rows Spark's tasks cost more than their work.
        return build(self.case.flow, [df.coalesce(1) for df in self._frames], lambda df: df).toArrow()

    def flow(self) -> Flow:
        made: Flow = build(self.case.flow, self._frames, self._read)
        return made

    def by_threads(self, on_execution: OnExecution = lambda _: None) -> pa.Table:
        flow = self.flow()
        plan = plan_of(flow)
        if not plan.operators:  # a union of sources is left to Spark
            return flow.toDF().toArrow()
        read = self._read_by_hosts(flow)
        # A flow may have Spark compute on a source; the threads take what comes of that.
        sources = [df.limit(0).toArrow() if n in read else self.rows(df) for n, df in enumerate(flow._pruned.sources)]
        cut = Cut(self.case.seed, self.case.partitions, self.case.batch_rows)
        settings = HostSettings(self.case.queue_bytes, self.case.spill)
        return run_flow(plan, sources, cut, settings=settings, on_execution=on_execution, scans=read)

    def on_spark(self) -> pa.Table:
        flow = self.flow()
        self._read_by_hosts(flow)
        return flow.toDF().toArrow()

    def _read_by_hosts(self, flow: Flow) -> dict[int, Scan]:
        """The sources that hosts read: all that are nothing but files."""
        sources = flow._sources(flow._settings())
        for source in sources:
            plain = self._on_files and any(source.df is frame for frame in self._frames)
            assert source.scan is not None or not plain, source.reason
        return {number: source.scan for number, source in enumerate(sources) if source.scan is not None}

    def _read(self, df: Any) -> Flow:
        case = self.case
        return reshape.read(
            df,
            name=f"seed-{case.seed}",
            hosts=case.hosts,
            workers=case.workers,
            queue_bytes=case.queue_bytes,
            spill=case.spill,
        )

    def rows(self, df: Any) -> pa.Table:
        for frame, table in zip(self._frames, self.tables, strict=True):
            if frame is df:
                return table
        return df.toArrow()
