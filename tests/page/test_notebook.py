"""A query in a notebook: executed in a real JupyterLab, in a browser, on Spark. The cost of its rows is emulated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from .conftest import LIMIT_MS

pytestmark = pytest.mark.jvm

TOKEN = "of-this-test"
WIDGET = "application/vnd.jupyter.widget-view+json"
SETUP = """
import reshape
spark = reshape.local_session(cores=4, spark_ui_enabled="false")
spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 250)
paced = spark.range(0, 200_000, 1, 2).where(
    "IF(id % 250 = 0, java_method('java.lang.Thread', 'sleep', CAST(400 AS BIGINT)), '') IS NOT NULL")
days = paced.selectExpr("IF(id % 10 < 4, 'm12', concat('m', id % 11 + 1)) AS month", "CAST(id % 28 AS INT) AS day")
flow = reshape.flow(days, name="in a notebook", workers=4, hosts=2).groupBy("month").count()
"""
SHOWN = "query = flow.bar('month', 'count').start()\nquery"
WAITED = "try:\n    query.awaitTermination()\nexcept reshape.FlowCancelled:\n    print('it was stopped')"
DRAWN = """
query = reshape.flow(spark.range(280).selectExpr("id % 28 AS day", "id % 2 AS half")).groupBy("half", "day").count()
query = query.line("day", "count", "half").start()
query.awaitTermination()
query
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """The address of a JupyterLab of its own; it ends with the test, and its kernels too."""
    empty: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    texts = (SETUP, SHOWN, WAITED, DRAWN)
    cells = [{**empty, "id": f"cell-{at}", "source": text} for at, text in enumerate(texts)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    written = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "watched.ipynb").write_text(json.dumps(written))
    own = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    folders = {name: str(tmp_path / name) for name in own}
    options = ("--no-browser", "--allow-root", "--ServerApp.port=0", f"--ServerApp.root_dir={tmp_path}")
    quiet = ("--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate")
    command = [sys.executable, "-m", "jupyterlab", *options, f"--IdentityProvider.token={TOKEN}", *quiet]
    with (tmp_path / "lab.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **folders}, cwd=tmp_path)
    try:
        yield _address(server, tmp_path)
    finally:
        server.terminate()
        server.wait(60)


def _address(server: subprocess.Popen[bytes], folder: Path) -> str:
    deadline = time.monotonic() + LIMIT_MS / 1_000
    while True:
        for found in (folder / "JUPYTER_RUNTIME_DIR").glob("jpserver-*.json"):
            return str(json.loads(found.read_text())["url"])
        log = (folder / "lab.log").read_text()
        assert server.poll() is None, log
        assert time.monotonic() < deadline, log
        time.sleep(0.1)


def keep_widgets(folder: Path) -> None:
    """The setting of JupyterLab that saves what widgets show."""
    settings = folder / "JUPYTER_CONFIG_DIR" / "lab" / "user-settings" / "@jupyter-widgets" / "jupyterlab-manager"
    settings.mkdir(parents=True)
    (settings / "plugin.jupyterlab-settings").write_text('{"saveState": true}')


def outputs(folder: Path, cell: int) -> list[dict[str, Any]]:
    """What the file has of a cell."""
    found: list[dict[str, Any]] = json.loads((folder / "watched.ipynb").read_text())["cells"][cell]["outputs"]
    return found


def open_and_run(page: Page, lab: str, cells: int) -> None:
    """The first cells of the notebook."""
    page.goto(f"{lab}lab/tree/watched.ipynb?token={TOKEN}")
    # Until the kernel is there, keys that would run a cell are dropped.
    expect(page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible()
    page.locator(".jp-CodeCell .cm-content").first.click()
    for _ in range(cells):
        page.keyboard.press("Shift+Enter")


def save(page: Page) -> None:
    with page.expect_response(
        lambda answer: "/api/contents/watched.ipynb" in answer.url and answer.request.method == "PUT"
    ):
        page.keyboard.press("Control+s")


def bar(page: Page, name: str) -> int:
    """The value beside a bar."""
    row = page.locator(".reshape-view .bars li").filter(has=page.get_by_text(name, exact=True))
    return int((row.locator(".value").get_attribute("title") or "0").split(", ")[0].replace(",", ""))


def test_a_query_is_live_in_a_notebook_and_stays_as_html(lab: str, tmp_path: Path, browser: Browser) -> None:
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        context.set_default_timeout(LIMIT_MS)
        page = context.new_page()
        open_and_run(page, lab, 3)
        expect(page.locator(".reshape-view .badge")).to_have_text("running")
        expect(page.locator(".reshape-view .bars li")).to_have_count(12)
        before = bar(page, "m12")
        page.wait_for_function(
            """(before) => [...document.querySelector(".reshape-view").shadowRoot.querySelectorAll(".bars li")].some(
                 (row) => Number(row.children[2].title.split(", ")[0].replace(",", "")) > before)""",
            arg=before,
        )
        expect(page.locator(".reshape-view .workers [data-worker]")).to_have_count(4)
        page.locator(".reshape-view [data-action=pause]").click()
        expect(page.locator(".reshape-view .badge")).to_have_text("paused")
        page.locator(".reshape-view [data-action=resume]").click()
        expect(page.locator(".reshape-view .badge")).to_have_text("running")
        page.locator(".reshape-view [data-action=stop]").click()  # while a cell waits for the end
        expect(page.get_by_text("it was stopped")).to_be_visible()
        expect(page.locator(".jp-RenderedHTML h4").first).to_have_text("in a notebook: stopped")
        expect(page.locator(".reshape-view")).to_have_count(0)
        page.locator(".jp-CodeCell .cm-content").last.click()
        page.keyboard.press("Shift+Enter")
        expect(page.locator(".jp-RenderedHTML h4")).to_have_count(2)
        save(page)
    for cell, status in ((1, "stopped"), (3, "done")):
        (output,) = outputs(tmp_path, cell)
        html = "".join(output["data"]["text/html"])
        assert status in html
        assert "data:image/svg+xml" in html
        assert "<script" not in html
        assert WIDGET not in output["data"]
    saved = (tmp_path / "watched.ipynb").read_text()
    assert "m12" in saved
    assert "127.0.0.1" not in saved


def test_a_notebook_that_is_saved_while_a_query_runs_says_so(lab: str, tmp_path: Path, browser: Browser) -> None:
    keep_widgets(tmp_path)
    silent = "Nothing comes from the kernel"
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        context.set_default_timeout(LIMIT_MS)
        page = context.new_page()
        open_and_run(page, lab, 2)
        expect(page.locator(".reshape-view .bars li")).to_have_count(12)
        expect(page.get_by_text(silent)).to_have_count(0)
        save(page)
        (session,) = page.request.get(f"{lab}api/sessions?token={TOKEN}").json()
        page.close()
        ended = context.request.delete(
            f"{lab}api/sessions/{session['id']}", headers={"Authorization": f"token {TOKEN}"}
        )
        assert ended.ok
    (output,) = outputs(tmp_path, 1)
    assert WIDGET in output["data"]
    assert "it was saved while the query still ran" in "".join(output["data"]["text/html"])
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        context.set_default_timeout(LIMIT_MS)
        page = context.new_page()
        page.goto(f"{lab}lab/tree/watched.ipynb?token={TOKEN}")
        expect(page.locator(".reshape-view .badge")).to_have_text("running")
        expect(page.get_by_text(silent)).to_be_visible()
