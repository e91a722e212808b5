"""A browser for the tests of the page: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from reshape.page.runs import Runs
from reshape.page.server import PageServer

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NO_BROWSER = (
    "the tests of the live page need Chromium: sudo apt-get install chromium (as root `make setup` does it), or name "
    "a browser of that kind in RESHAPE_CHROMIUM"
)

# Generous, and only waited for in full when something is broken: the machine may be busy.
LIMIT_MS = 120_000

OpenPage = Callable[..., Page]


# Not longer than a module: while Playwright is there, no other loop of asyncio can run in its thread.
@pytest.fixture(scope="module")
def browser(chromium_path: str | None) -> Iterator[Browser]:
    if chromium_path is None:
        pytest.fail(NO_BROWSER, pytrace=False)
    expect.set_options(timeout=LIMIT_MS)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium_path, args=list(FLAGS))
        yield launched
        launched.close()


@pytest.fixture
def open_url(browser: Browser) -> Iterator[OpenPage]:
    """Opens an address, with a script of the test's own; what the page's scripts complain about fails the test."""
    complaints: list[str] = []
    contexts = []

    def opened(url: str, width: int = 1280, height: int = 900, script: str = "", **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(LIMIT_MS)
        contexts.append(context)
        page = context.new_page()
        page.add_init_script(script)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def served() -> Iterator[tuple[Runs, PageServer]]:
    """A server with runs of its own."""
    runs = Runs()
    server = PageServer(runs, 0)
    yield runs, server
    server.close()
    assert not server.alive
