"""The page when a part of it is gone: the browser, the server's process, Spark. Words for people, and no traceback."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from reshape.observe.event_log import EventLog
from reshape.page.runs import Runs
from reshape.page.server import PageServer

from .conftest import LIMIT_MS
from .telling import RecordedRun, a_run

ON_SPARK = """
import json, reshape
from pyspark import SparkContext
spark = reshape.local_session(cores=4, spark_ui_enabled="false", spark_log_level="OFF")
spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 250)
paced = spark.range(0, 200_000, 1, 2).where(
    "IF(id % 250 = 0, java_method('java.lang.Thread', 'sleep', CAST(400 AS BIGINT)), '') IS NOT NULL")
query = reshape.flow(paced.selectExpr("id % 7 AS k"), name="orphan", hosts=2, workers=4).groupBy("k").count().start()
print(json.dumps({"url": query.url, "jvm": SparkContext._gateway.proc.pid}), flush=True)
try:
    query.awaitTermination()
except reshape.ReshapeError as error:
    print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
input()
"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """One whose network may fail."""
    with browser.new_context() as context:
        context.set_default_timeout(LIMIT_MS)
        yield context.new_page()


def test_a_browser_that_is_closed_leaves_no_trace(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.WARNING)
    runs = Runs()
    run = RecordedRun(a_run())
    number = runs.add(run)
    server = PageServer(runs, 0)
    try:
        for _ in range(3):
            with httpx.Client() as client:
                client.get(server.url(number))
                with client.stream("GET", f"{server.address}events?runs={number}") as events:
                    assert next(line for line in events.iter_lines() if line.startswith("data: "))
        assert server.alive
    finally:
        server.close()
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def replay(folder: Path, *options: str) -> list[str]:
    """A command that shows a run once more."""
    log = EventLog(str(folder), "told-1")
    for kind, seconds, facts in a_run():
        log.write(kind, seconds, **facts)
    log.close()
    script = "import sys; from reshape.cli.main import main; sys.exit(main())"
    return [sys.executable, "-c", script, "replay", str(log.path), *options]


def test_a_port_that_is_taken_is_said_by_the_command(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = replay(tmp_path, "--port", port)
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode not in (0, None)
    assert f"port {port} of 127.0.0.1 cannot be used" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_killed_server_is_said_also_by_its_buttons(tmp_path: Path, page: Page) -> None:
    program = subprocess.Popen(replay(tmp_path, "--port", "0", "--speed", "0.01"), stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        page.goto(next(line for line in program.stdout if line.startswith("http")).strip())
        expect(page.locator("[data-action=pause]")).to_be_visible()
        program.kill()
        expect(page.locator("#connection")).to_contain_text("not connected: has the program ended?")
        page.locator("[data-action=pause]").click()
        expect(page.locator(".problem")).to_have_text("the program does not answer: has it ended?")
        expect(page.locator("h2")).to_have_text("told")
    finally:
        program.kill()
        program.wait(60)
        assert program.stdout is not None
        program.stdout.close()


@pytest.mark.jvm
def test_a_spark_that_is_gone_is_said(page: Page, tmp_path: Path) -> None:
    command = [sys.executable, "-c", ON_SPARK]
    with (tmp_path / "errors").open("w") as errors:
        program = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=tmp_path
        )
    with program:
        assert program.stdout is not None
        told = json.loads(program.stdout.readline())
        page.goto(told["url"])
        expect(page.locator(".bars li").first).to_be_visible()
        os.kill(told["jvm"], signal.SIGKILL)
        expect(page.locator(".badge")).to_have_text("failed")
        expect(page.locator(".problem")).not_to_be_empty()
        assert "Traceback" not in page.inner_text("body")
        expect(page.locator("[data-action]")).to_have_count(0)
        assert "Error" not in page.inner_text(".problem").split(":")[0]
        answer = json.loads(program.stdout.readline())
        assert answer["error"].startswith("Flow")
        assert program.stdin is not None
        program.stdin.write("\n")
        program.stdin.flush()
        program.wait(120)
