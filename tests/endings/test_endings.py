"""However a flow ends: the outcome is right, the first cause is told, and within seconds nothing of it is left."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Watched
from .driver import ROWS
from .remains import host_processes, source_processes, until

pytestmark = pytest.mark.jvm

LOCAL = "local[4]"
CLUSTER = "local-cluster[2,2,512]"
WANTED = ROWS * (ROWS - 1) // 2
Watch = Callable[[str], Watched]


def assert_nothing_left(driver: Watched, answer: dict[str, Any], since: float, what: str) -> None:
    """No job, thread, port or file of the flow, while the session lives on."""
    assert answer["left"]["threads"] == []
    assert answer["left"]["jobs"] == []
    until("hosts to stop listening", lambda: not host_processes(driver.mark))
    until("spilled rows to go", lambda: not driver.spilled())
    print(f"\n{what}: all gone after {time.monotonic() - since:.1f} s, outcome {answer['outcome']}")


def assert_nothing_left_at_all(driver: Watched, since: float, what: str) -> None:
    until("all processes to end", lambda: not driver.processes())
    assert driver.spilled() == []
    print(f"\n{what}: all gone after {time.monotonic() - since:.1f} s")


def test_success(watch: Watch) -> None:
    driver = watch(LOCAL)
    driver.start("collect")
    driver.until_in_the_middle()
    driver.gate.touch()
    answer = driver.answer()
    assert (answer["outcome"], answer.get("sum")) == ("success", WANTED), answer
    assert_nothing_left(driver, answer, time.monotonic(), "success")


@pytest.mark.parametrize("how", ["collect", "await"])
def test_error_in_a_users_function(watch: Watch, how: str) -> None:
    driver = watch(LOCAL)
    driver.start(how, fault="one over nothing")
    driver.until_in_the_middle()
    since = time.monotonic()
    driver.gate.touch()
    answer = driver.answer()
    assert answer["outcome"] == ("FlowFailed" if how == "await" else "Py4JJavaError")
    cause = r"the flow failed in repartition \(operator 0\), worker \d: ZeroDivisionError: one over nothing"
    assert re.search(cause, answer["message"]), answer
    assert_nothing_left(driver, answer, since, f"error, {how}")


@pytest.mark.parametrize("scan", [False, True])
def test_cancel(watch: Watch, scan: bool) -> None:
    driver = watch(LOCAL)
    driver.start("cancel", scan=scan)
    answer = driver.answer()
    assert answer["outcome"] == "FlowCancelled", answer
    assert_nothing_left(driver, answer, time.monotonic(), "cancel")


@pytest.mark.parametrize(("how", "scan"), [("collect", False), ("await", False), ("collect", True)])
def test_control_c(watch: Watch, how: str, scan: bool) -> None:
    driver = watch(LOCAL)
    driver.start(how, scan=scan)
    driver.until_in_the_middle()
    since = time.monotonic()
    driver.process.send_signal(signal.SIGINT)
    answer = driver.answer()
    assert answer["outcome"] == "KeyboardInterrupt", answer
    assert_nothing_left(driver, answer, since, f"Ctrl-C, {how}")


@pytest.mark.parametrize(("how", "scan"), [("await", False), ("await", True), ("own action", False)])
def test_killed_python_worker_of_a_host(watch: Watch, how: str, scan: bool) -> None:
    """Spark starts the hosts again, and the flow with them; where it does not, the action is run again."""
    driver = watch(LOCAL)
    driver.start(how, scan=scan)
    hosts = driver.until_in_the_middle()
    since = time.monotonic()
    os.kill(hosts[0], signal.SIGKILL)
    until("the host to be gone", lambda: hosts[0] not in driver.processes())
    driver.gate.touch()
    answer = driver.answer()
    assert (answer["outcome"], answer.get("sum")) == ("success", WANTED), answer
    assert_nothing_left(driver, answer, since, "killed Python worker")


@pytest.mark.parametrize("master", [LOCAL, CLUSTER])
def test_killed_python_worker_of_a_source(watch: Watch, master: str) -> None:
    """Its rows are with the hosts in part: the whole attempt is made anew, where Spark tries a task once and where it
    does so four times."""
    driver = watch(master)
    driver.start("await", read="slowly")
    driver.until_in_the_middle()
    sources = until("source tasks", lambda: source_processes(driver.mark))
    since = time.monotonic()
    os.kill(sources[0], signal.SIGKILL)
    until("the source to be gone", lambda: sources[0] not in driver.processes())
    driver.gate.touch()
    answer = driver.answer()
    assert (answer["outcome"], answer.get("sum")) == ("success", WANTED), answer
    # Where Spark ends the hosts too, the driver may begin anew before it hears of the source.
    assert re.search(
        r"attempt 1 was lost in (source.*Python worker exited unexpectedly|host-\d: Spark has ended it).*"
        r"; attempt 2 begins",
        answer["story"][0],
    ), answer["story"]
    assert_nothing_left(driver, answer, since, "killed Python worker of a source")


def test_shuffle_files_that_are_gone(watch: Watch) -> None:
    """Spark makes them anew and runs all source tasks again that it has not seen end, counted as first tries."""
    driver = watch(LOCAL)
    before = set(driver.shuffled())
    driver.start("await", read="slowly")
    driver.until_in_the_middle()
    since = time.monotonic()
    files = [file for file in driver.shuffled() if file not in before]
    assert files
    for file in files:
        file.unlink()
    driver.gate.touch()
    answer = driver.answer()
    assert (answer["outcome"], answer.get("sum")) == ("success", WANTED), answer
    # On a busy machine Spark may book too late why it runs a task again.
    why = r"(FetchFailed.*|Spark runs it again and does not say why)"
    assert re.search(rf"attempt 1 was lost in source-0-\d: {why}; attempt 2 begins", answer["story"][0])
    assert_nothing_left(driver, answer, since, "shuffle files that are gone")


def test_killed_driver(watch: Watch) -> None:
    driver = watch(LOCAL)
    driver.start("collect")
    driver.until_in_the_middle()
    since = time.monotonic()
    driver.process.kill()
    driver.process.wait()
    assert_nothing_left_at_all(driver, since, "killed driver")


def test_killed_jvm(watch: Watch) -> None:
    """The driver's Python lives on, and hears of it."""
    driver = watch(LOCAL)
    driver.start("await")
    driver.until_in_the_middle()
    since = time.monotonic()
    for pid in driver.find("org.apache.spark.deploy.SparkSubmit"):
        os.kill(pid, signal.SIGKILL)
    answer = driver.answer()
    assert answer["outcome"] not in ("success", "ready"), answer
    assert answer["left"]["threads"] == []
    until("hosts to end", lambda: not host_processes(driver.mark))
    until("spilled rows to go", lambda: not driver.spilled())
    print(f"\nkilled JVM: all gone after {time.monotonic() - since:.1f} s, outcome {answer}")
    assert driver.process.stdin is not None
    driver.process.stdin.close()
    assert_nothing_left_at_all(driver, time.monotonic(), "driver's end after a killed JVM")


@pytest.mark.parametrize("scan", [False, True])
def test_lost_executor(watch: Watch, scan: bool) -> None:
    """Either Spark's retry makes the flow succeed, or it fails with the loss as its cause; never a wrong result."""
    driver = watch(CLUSTER)
    driver.start("await", scan=scan)
    driver.until_in_the_middle()
    since = time.monotonic()
    executors = until("two executors", driver.executors)
    os.kill(executors[0], signal.SIGKILL)
    driver.gate.touch()
    answer = driver.answer()
    assert (answer["outcome"], answer.get("sum")) == ("success", WANTED), answer
    assert_nothing_left(driver, answer, since, "lost executor")


def test_an_executor_that_is_lost_while_the_result_is_written(watch: Watch) -> None:
    """What it had of the result's exchange is made anew, by another attempt. No row of the first one may stay: Spark
    begins the writing anew too, or ends the job where a task of it has ended already."""
    driver = watch(CLUSTER)
    driver.start("write")
    driver.gate.touch()
    until("a task that writes", driver.gate.with_name(f"{driver.gate.name}-writes").exists)
    since = time.monotonic()
    os.kill(until("two executors", driver.executors)[0], signal.SIGKILL)
    driver.gate.with_name(f"{driver.gate.name}-written").touch()
    answer = driver.answer()
    if answer["outcome"] == "success":
        assert answer["sum"] == WANTED, answer
    else:
        assert "indeterminate output was failed and retried" in answer["message"], answer
        assert not driver.gate.with_name(f"{driver.gate.name}-file").joinpath("_SUCCESS").exists()
    assert_nothing_left(driver, answer, since, "executor lost in mid-write")


def test_a_flow_right_after_an_executor_was_lost(watch: Watch) -> None:
    """Spark replaces it within seconds; until then there are two slots, of the three that hosts and sources need."""
    driver = watch(CLUSTER)
    lost, _ = until("two executors", driver.executors)
    os.kill(lost, signal.SIGKILL)
    until("the executor to be gone", lambda: lost not in driver.processes())
    driver.start("await")
    driver.until_in_the_middle()
    driver.gate.touch()
    answer = driver.answer()
    assert (answer["outcome"], answer.get("sum")) == ("success", WANTED), answer
    assert_nothing_left(driver, answer, time.monotonic(), "a flow right after an executor was lost")


def test_killed_driver_of_a_cluster(watch: Watch) -> None:
    driver = watch(CLUSTER)
    driver.start("collect")
    driver.until_in_the_middle()
    since = time.monotonic()
    driver.process.kill()
    driver.process.wait()
    assert_nothing_left_at_all(driver, since, "killed driver of a cluster")
