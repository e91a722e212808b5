"""A body without Spark jobs, for tests of flows and of strategies: real hosts, sources, exchange and driver's service,
as threads of this process. Everything but Spark's own part is the code that runs on Spark."""

from __future__ import annotations

from reshape.testing.cutting import Cut, cut_up
from reshape.testing.scanning import scan_of, write_files
from reshape.testing.threads import OnExecution, ThreadCluster, ThreadedFlow, run_flow

__all__ = ["Cut", "OnExecution", "ThreadCluster", "ThreadedFlow", "cut_up", "run_flow", "scan_of", "write_files"]
