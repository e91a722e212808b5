"""The page as an ASGI application: its files, its events, its buttons."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from reshape.errors import ReshapeError
from reshape.page.feed import UPDATE_S, Feed, Heard
from reshape.page.guard import Guard
from reshape.page.runs import Runs

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

FILES = Path(__file__).parent / "static"
# A browser that is gone is noticed when something is sent.
ALIVE_S = 10.0
# Runs that one browser can look at: two side by side.
MOST_WANTED = 2


def make_app(runs: Runs, token: str, port: int, is_over: Callable[[], bool] = lambda: False) -> ASGIApp:
    """``is_over``: is the server about to end? Then browsers are let go."""
    from starlette.applications import Starlette
    from starlette.responses import FileResponse, JSONResponse, StreamingResponse
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles

    feed = Feed(runs)

    async def index(_request: Request) -> Response:
        return FileResponse(FILES / "index.html", media_type="text/html")

    async def events(request: Request) -> Response:
        numbers = request.query_params.get("runs", "").split(",")
        wanted = [int(number) for number in numbers if number.isascii() and number.isdigit()][:MOST_WANTED]
        return StreamingResponse(_messages(feed, wanted, is_over), media_type="text/event-stream")

    async def act(request: Request) -> Response:
        run = runs.get(request.path_params["number"])
        action = request.path_params["action"]
        if run is None or action not in run.actions:
            return JSONResponse({"error": f"this run cannot {action} now"}, status_code=409)
        value = request.query_params.get("value", "")
        try:
            number = float(value) if value else None
            await asyncio.to_thread(run.act, action, number)
        except (ReshapeError, ValueError, OSError) as error:
            return JSONResponse({"error": str(error)}, status_code=409)
        return JSONResponse({"status": run.status})

    routes = [
        Route("/", index),
        Route("/events", events),
        Route("/runs/{number:int}/{action}", act, methods=["POST"]),
        Mount("/static", StaticFiles(directory=FILES)),
    ]
    return Guard(Starlette(routes=routes), token, port)


async def _messages(feed: Feed, wanted: list[int], is_over: Callable[[], bool]) -> AsyncIterator[str]:
    """Server-sent events, as long as the browser is there."""
    heard = Heard()
    said_at = time.monotonic()
    yield "retry: 1000\n\n"
    while not is_over():
        began = time.monotonic()
        message = await asyncio.to_thread(feed.update, wanted, heard)
        if message is not None:
            said_at = time.monotonic()
            yield f"data: {message}\n\n"
        elif began - said_at > ALIVE_S:
            said_at = began
            yield ": still here\n\n"
        await asyncio.sleep(max(0.0, UPDATE_S - (time.monotonic() - began)))
