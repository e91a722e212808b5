"""A local session made for flows, in processes of its own: an application has one session."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

SCRIPT = """
import json
import reshape

found = {}
spark = reshape.local_session("shop", cores=1, spark_ui_enabled=False, config={"spark.log.level": "ERROR"})
conf = spark.sparkContext.getConf()
names = ("spark.master", "spark.app.name", "spark.ui.enabled", "spark.driver.bindAddress", "spark.driver.memory")
found["conf"] = {name: conf.get(name) for name in names}
found["arrow"] = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
found["partitions"] = spark.conf.get("spark.sql.shuffle.partitions")
rows = reshape.flow(spark.range(0, 100, 1, 2).selectExpr("id % 7 AS k")).groupBy("k").count().toDF().collect()
found["rows"] = {row["k"]: row["count"] for row in rows}
again = reshape.local_session("shop", cores=1, spark_ui_enabled=False)
found["again"] = again.sparkContext is spark.sparkContext
try:
    reshape.local_session("shop", cores=7)
except Exception as error:
    found["differs"] = f"{type(error).__name__}: {error}"
spark.stop()
spark = reshape.local_session(cores=1, spark_dynamicAllocation_enabled=True, spark_ui_enabled=False)
try:
    reshape.flow(spark.range(9)).groupBy("id").count().toDF()
except Exception as error:
    found["dynamic"] = f"{type(error).__name__}: {error}"
spark.stop()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    command, directory = [sys.executable, "-c", SCRIPT], tmp_path_factory.mktemp("session")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=directory)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.jvm
def test_a_local_session_fits_flows(found: dict[str, Any]) -> None:
    conf = found["conf"]
    assert conf["spark.master"] == "local[5]"
    assert conf["spark.app.name"] == "shop"
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert conf["spark.driver.memory"].endswith("g")
    assert (found["arrow"], found["partitions"]) == ("65536", "8")
    assert found["rows"] == {str(k): 15 if k < 2 else 14 for k in range(7)}


@pytest.mark.jvm
def test_a_session_that_runs_is_used_only_if_it_fits(found: dict[str, Any]) -> None:
    assert found["again"]
    assert found["differs"].startswith("UnsuitableSession: local_session: a Spark session runs already")
    assert "spark.master is 'local[5]', wanted 'local[9]'" in found["differs"]
    assert "spark.stop()" in found["differs"]


@pytest.mark.jvm
def test_a_session_with_dynamic_allocation_is_refused(found: dict[str, Any]) -> None:
    assert found["dynamic"].startswith("UnsuitableSession: Spark runs no barrier stage")


def test_cores_are_a_positive_number() -> None:
    import reshape
    from reshape.errors import UnsuitableSession

    with pytest.raises(UnsuitableSession, match="cores = 0 is not possible"):
        reshape.local_session(cores=0)
