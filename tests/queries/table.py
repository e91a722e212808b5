"""The page on the suite, ``docs/query_suite.md``: which operators of each query run where. Starts no job.

python -m tests.queries.table > docs/query_suite.md
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import reshape
from reshape.catalyst.placement import Placement

from .running import SETTINGS, new_session
from .suite import QUERIES
from .tables import SKEWED, TINY, make_tables, register

Placements = Mapping[str, tuple[Placement, ...]]

HEAD = """\
# Where the queries of the suite run

`tests/queries/` asks {queries} questions about TPC-H's and TPC-DS's tables, with and without skew, and compares every
answer with Spark's. This page says which of their operators hosts run and which ones Spark
(`reshape.flow(query).placements`). It is made by

```
.venv/bin/python -m tests.queries.table > docs/query_suite.md
```

All tables are small there, so only the smallest are broadcast (`spark.sql.autoBroadcastJoinThreshold` is {threshold}).
Joins that Spark broadcasts move no rows and are not counted. Of {shuffled} other operators hosts run {ours}, which is
{share:.0%}.

| query | in hosts | by Spark | why |
|---|---|---|---|
"""


def is_shuffled(placement: Placement) -> bool:
    """Whether rows move for it, wherever it runs."""
    return placement.where == "reshape" or not placement.reason.startswith("broadcast")


def shuffled_and_ours(placements: Placements) -> tuple[int, int]:
    """How many operators of all queries are shuffled, and how many of these hosts run."""
    shuffled = [each for of_query in placements.values() for each in of_query if is_shuffled(each)]
    return len(shuffled), sum(each.where == "reshape" for each in shuffled)


def page(placements: Placements) -> str:
    shuffled, ours = shuffled_and_ours(placements)
    head = HEAD.format(
        queries=len(placements),
        threshold=SETTINGS["spark.sql.autoBroadcastJoinThreshold"],
        shuffled=shuffled,
        ours=ours,
        share=ours / max(1, shuffled),
    )
    return head + "".join(f"{_line(name, placements[name])}\n" for name in placements)


def _line(name: str, placements: Iterable[Placement]) -> str:
    placed = list(placements)
    ours = [each.operator for each in placed if each.where == "reshape"]
    sparks = [each.operator for each in placed if each.where == "spark"]
    reasons = dict.fromkeys(each.reason for each in placed if each.where == "spark")
    cells = (f"`{name}`", _counted(ours), _counted(sparks), "; ".join(reasons))
    # Spark numbers expressions as they come: another number each time.
    return "| " + " | ".join(re.sub(r"#\d+", "", cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _counted(operators: Iterable[str]) -> str:
    return ", ".join(name if count == 1 else f"{count} × {name}" for name, count in Counter(operators).items())


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="reshape-queries-") as folder:
        make_tables(Path(folder), TINY)
        spark = reshape.local_session("the suite's table", spark_log_level="ERROR")
        try:
            session = new_session(spark)
            register(session, Path(folder), SKEWED)
            placed = {name: reshape.flow(query.build(session)).placements for name, query in QUERIES.items()}
        finally:
            spark.stop()
    print(page(placed), end="")


if __name__ == "__main__":
    main()
