"""Nobody but the user's own browser gets in, and what it gets tells others nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from reshape.page.app import make_app
from reshape.page.guard import new_token
from reshape.page.runs import Runs

from .telling import RecordedRun, a_run

PORT = 4140
HOST = f"127.0.0.1:{PORT}"
# As one looks; made anew, tests would have other names in each run.
TOKEN = "T_lg6S-x3JkR3DO_K6uh-JLT_Sv8RdTFN7wKjsLNVAs"
COOKIE = f"reshape-page-{PORT}"
OWN = {"cookie": f"{COOKIE}={TOKEN}", "host": HOST}


def ask(method: str, path: str, headers: dict[str, str], runs: Runs | None = None) -> httpx.Response:
    async def asked() -> httpx.Response:
        app: Any = make_app(runs or Runs(), TOKEN, PORT)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(asked())


def test_a_token_has_256_bits_and_is_new_each_time() -> None:
    assert len(new_token()) >= 43  # six bits a letter
    assert new_token() != new_token()


def test_the_token_becomes_a_cookie_that_scripts_cannot_read() -> None:
    answer = ask("GET", f"/?token={TOKEN}&run=1", {"host": HOST})
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}={TOKEN};")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert TOKEN not in answer.text


@pytest.mark.parametrize("path", ["/", "/events?runs=1", "/static/main.js", "/static/../guard.py", "/anything"])
def test_nothing_is_there_without_the_token(path: str) -> None:
    answer = ask("GET", path, {"host": HOST})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert "query.url" in answer.text


@pytest.mark.parametrize(
    "given", ["", "x", TOKEN[:-1], TOKEN + "x", TOKEN.swapcase(), "%00", "%C3%BC", f"{TOKEN}%0A", "a" * 50_000]
)
def test_another_token_is_refused(given: str) -> None:
    assert ask("GET", f"/?token={given}", {"host": HOST}).status_code == 403


@pytest.mark.parametrize("cookie", [f"{COOKIE}=x", f"reshape-page-1={TOKEN}", "=", f'{COOKIE}="{TOKEN[:-1]}"', ";;;"])
def test_another_cookie_is_refused(cookie: str) -> None:
    assert ask("GET", "/", {"host": HOST, "cookie": cookie}).status_code == 403


def test_the_token_opens_the_page_only_not_what_changes_something() -> None:
    assert ask("GET", f"/static/main.js?token={TOKEN}", {"host": HOST}).status_code == 403
    assert ask("POST", f"/?token={TOKEN}", {"host": HOST, "origin": f"http://{HOST}"}).status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"127.0.0.1.evil.example:{PORT}", ""]
)
def test_a_name_that_is_not_this_machine_is_refused(host: str) -> None:
    """A stranger's name may resolve to 127.0.0.1."""
    assert ask("GET", "/", {**OWN, "host": host}).status_code == 403


@pytest.mark.parametrize("host", [HOST, f"localhost:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}"])
def test_names_of_this_machine_are_let_in(host: str) -> None:
    assert ask("GET", "/", {**OWN, "host": host}).status_code == 200


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", f"https://{HOST}", f"http://localhost:{PORT}"])
def test_a_button_of_another_page_does_nothing(origin: str | None) -> None:
    runs = Runs()
    run = RecordedRun(a_run())
    number = runs.add(run)
    headers = OWN if origin is None else {**OWN, "origin": origin}
    assert ask("POST", f"/runs/{number}/stop", headers, runs).status_code == 403
    assert run.acted == []


def test_a_button_of_the_page_does_what_it_says() -> None:
    runs = Runs()
    run = RecordedRun(a_run())
    number = runs.add(run)
    own = {**OWN, "origin": f"http://{HOST}"}
    assert ask("POST", f"/runs/{number}/stop", own, runs).status_code == 200
    assert run.acted == [("stop", None)]
    for path in (f"/runs/{number}/explode", f"/runs/{number + 1}/stop", f"/runs/{number}/refuse?value=x"):
        answer = ask("POST", path, own, runs)
        assert answer.status_code == 409
        assert answer.json()["error"]
    answer = ask("POST", f"/runs/{number}/refuse", own, runs)
    assert (answer.status_code, answer.json()) == (409, {"error": "not now"})


def test_no_answer_lets_anything_foreign_in() -> None:
    for answer in (ask("GET", "/", OWN), ask("GET", "/static/page.css", OWN), ask("GET", "/", {"host": HOST})):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


def test_a_file_outside_the_page_is_not_there() -> None:
    for path in ("/static/%2e%2e/guard.py", "/static/..%2fguard.py", "/static//etc/passwd", "/static/vendor"):
        assert ask("GET", path, OWN).status_code == 404
