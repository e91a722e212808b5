"""One server: on loopback alone, on a port that is free, gone when it is closed, and quiet in the logs."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys

import httpx
import pytest

from reshape.observe.page_address import with_page
from reshape.page import server as serving
from reshape.page.errors import PageUnavailable
from reshape.page.runs import Runs
from reshape.page.server import PageServer

from .telling import RecordedRun, a_run


def test_it_serves_events_to_who_has_the_address(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    runs = Runs()
    number = runs.add(RecordedRun(a_run()))
    server = PageServer(runs, 0)
    try:
        url = server.url(number)
        assert url.startswith("http://127.0.0.1:")
        token = httpx.URL(url).params["token"]
        with httpx.Client() as client:
            assert client.get(server.address).status_code == 403
            assert client.get(url).status_code == 200
            assert client.get(server.address).status_code == 200, "the cookie is enough"
            with client.stream("GET", f"{server.address}events?runs={number}") as events:
                lines = events.iter_lines()
                data = next(line for line in lines if line.startswith("data: "))
                assert '"changes":{"1":' in data
                assert events.headers["content-type"].startswith("text/event-stream")
        ours = [record for record in caplog.records if not record.name.startswith("http")]
        assert not any(token in record.getMessage() for record in ours)
    finally:
        server.close()
    assert not server.alive
    with socket.socket() as connection:
        assert connection.connect_ex(("127.0.0.1", server.port)) != 0


def test_a_browser_that_stays_does_not_keep_the_server() -> None:
    runs = Runs()
    number = runs.add(RecordedRun(a_run()))
    server = PageServer(runs, 0)
    with httpx.Client() as client:
        client.get(server.url(number))
        with client.stream("GET", f"{server.address}events?runs={number}") as events:
            next(events.iter_lines())
            server.close()
            assert not server.alive


def test_a_port_in_use_means_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(serving, "FIRST_PORT", port)
        server = PageServer(Runs())
        try:
            assert server.port != port
        finally:
            server.close()
        with pytest.raises(PageUnavailable, match=f"port {port} of 127.0.0.1 cannot be used: .* use another one"):
            PageServer(Runs(), port)


def test_jobs_tell_where_an_open_page_is_and_nothing_secret() -> None:
    assert with_page("reshape flow") == "reshape flow"
    server = PageServer(Runs(), 0)
    try:
        assert with_page("reshape flow") == f"reshape flow ({server.address})"
        assert "token" not in with_page("")
    finally:
        server.close()
    assert with_page("reshape flow") == "reshape flow"


def test_without_its_packages_the_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(PageUnavailable, match=r"pip install 'reshape\[page\]'"):
        PageServer(Runs(), 0)


def test_a_process_ends_while_its_page_is_open() -> None:
    script = "from reshape.page.server import open_page\nassert open_page() is open_page()\nprint(open_page().address)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("http://127.0.0.1:")
