"""The page with somebody who looks: what an update takes in a browser, and what the server takes beside a flow."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _cpu import ticks_s, tree_cpu_s

from reshape.page.runs import Runs
from reshape.page.server import PageServer, open_page

if TYPE_CHECKING:
    from reshape.query import Query

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
WARM_ROWS, ROWS = 1_000_000, 20_000_000
# Counts what the page was told.
COUNTING = """
window.updates = 0;
window.EventSource = class extends EventSource {
  constructor(address) { super(address); this.addEventListener("message", () => (window.updates += 1)); }
};
"""
# Reads a page's events until it is ended, as a browser does.
READER = """
import sys, httpx
with httpx.Client(timeout=None) as client:
    client.get(sys.argv[1])
    address = sys.argv[1].split("?")[0]
    with client.stream("GET", f"{address}events?runs={sys.argv[2]}") as events:
        for _ in events.iter_bytes():
            pass
"""


def in_browser(runs: Runs, number: int, step: Callable[[], None], seconds: float) -> dict[str, Any] | None:
    """While ``step`` is called five times a second: time of the browser's main thread for an update (scripts, layout,
    painting) and the memory of its scripts, at the beginning and at the end. None where there is no Chromium."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        return None
    from playwright.sync_api import sync_playwright

    server = PageServer(runs, 0)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.add_init_script(COUNTING)
        page.goto(server.url(number))
        page.locator(".workers canvas, .workers svg").first.wait_for()
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})  # CPU time: others may be busy

        def metrics() -> tuple[float, float, int]:
            updates, took = int(page.evaluate("window.updates")), _metric(session, "TaskDuration")
            session.send("HeapProfiler.collectGarbage")
            return took, _metric(session, "JSHeapUsedSize") / 1e6, updates

        _during(page, step, seconds / 4)  # warm
        first, before = metrics(), metrics()  # a collection is no part of an update
        _during(page, step, seconds)
        after = metrics()
        browser.close()
    server.close()
    updates = max(1, after[2] - before[2])
    return {
        "updates": updates,
        "browser_ms": round(1000 * (after[0] - before[0]) / updates, 1),
        "browser_mb": [round(first[1], 1), round(after[1], 1)],
    }


def _metric(session: Any, name: str) -> float:
    found = session.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in found if each["name"] == name))


def _during(page: Any, step: Callable[[], None], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        step()
        page.wait_for_timeout(200)


def beside_flow(quick: bool) -> dict[str, Any]:
    """The CPU time of the server's threads while a real flow runs and its page is read, as a part of the flow's."""
    import reshape

    spark = reshape.local_session("page benchmark", spark_ui_enabled="false")
    key = "CASE WHEN id % 10 < 4 THEN 0 ELSE id % 997 END AS k"
    right = spark.range(997).selectExpr("id AS k", "concat('name ', id) AS name")

    def started(rows: int) -> Query:
        left = spark.range(0, rows, 1, 8).selectExpr(key, "id AS v")
        return reshape.read(left, name="watched", workers=8).join(right, "k").groupBy("name").agg({"v": "sum"}).start()

    started(WARM_ROWS).awaitTermination()
    server = open_page()
    before, began = tree_cpu_s(), time.monotonic()
    query = started(WARM_ROWS if quick else ROWS)
    number = query.url.rpartition("=")[2]
    reader = subprocess.Popen([sys.executable, "-c", READER, query.url, number])
    query.awaitTermination()
    wall_s = time.monotonic() - began
    spent = sum(ticks_s(Path(f"/proc/self/task/{thread.native_id}")) for thread in _server_threads())
    reading = ticks_s(Path(f"/proc/{reader.pid}"))
    flow_s = tree_cpu_s() - before - reading - spent
    reader.terminate()
    reader.wait()
    server.close()
    spark.stop()
    return {
        "flow_s": round(wall_s, 1),
        "flow_cpu_s": round(flow_s, 1),
        "server_cpu_s": round(spent, 2),
        "part": round(spent / flow_s, 4),
    }


def _server_threads() -> list[threading.Thread]:
    """The server's own, and those in which it puts messages together."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(("reshape-page", "asyncio"))]
