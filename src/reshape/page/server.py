"""One server per process, in a thread of its own; it is there from the first question for its address to the end."""

from __future__ import annotations

import atexit
import socket
import threading
from typing import Any

from reshape.observe import page_address
from reshape.page.errors import PageUnavailable
from reshape.page.guard import new_token
from reshape.page.runs import RUNS, Runs

ADDRESS = "127.0.0.1"
# Tried first, so that addresses look alike; Spark's own page has 4040 and the ports behind it.
FIRST_PORT = 4140
TRIED_PORTS = 20
END_S = 5.0


class PageServer:
    """Serves from the moment it is made."""

    def __init__(self, runs: Runs, port: int | None = None) -> None:
        """``port`` None: the first that is free."""
        try:
            import uvicorn

            from reshape.page.app import make_app
        except ImportError as error:
            raise PageUnavailable(
                f"the live page needs packages that are not there ({error.name}): pip install 'reshape[page]'"
            ) from error
        self._token = new_token()
        self._socket = _listening(port)
        self.port: int = self._socket.getsockname()[1]
        app = make_app(runs, self._token, self.port, lambda: self._server.should_exit)
        # No access log: addresses hold the token. No signal handlers: they are those of the user's program.
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", ws="none", timeout_graceful_shutdown=1
        )
        self._server: Any = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="reshape-page", daemon=True)
        self._thread.start()
        page_address.announce(self.address)
        atexit.register(self.close)

    @property
    def address(self) -> str:
        """Without the token: for places that others may read."""
        return f"http://{ADDRESS}:{self.port}/"

    def url(self, number: int, beside: int | None = None) -> str:
        """What to open in a browser on this machine: the page with a run, or with two side by side."""
        second = "" if beside is None else f"&beside={beside}"
        return f"{self.address}?token={self._token}&run={number}{second}"

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def wait(self, limit_s: float | None = None) -> bool:
        """Wait until the server has ended; whether it has."""
        self._thread.join(limit_s)
        return not self._thread.is_alive()

    def close(self) -> None:
        """End it, and wait until it has ended."""
        page_address.withdraw(self.address)
        self._server.should_exit = True
        self.wait(END_S)
        atexit.unregister(self.close)

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()


def _listening(port: int | None) -> socket.socket:
    """A socket that listens already: who has the address can open it at once."""
    ports = [*range(FIRST_PORT, FIRST_PORT + TRIED_PORTS), 0] if port is None else [port]
    for each in ports:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # The port of a page that has just ended may be used again; one that somebody listens on may not.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((ADDRESS, each))
            listener.listen(64)
        except OSError as error:
            listener.close()
            if each == ports[-1]:
                advice = "use another one, or none to get one that is free" if port else "does localhost work here?"
                raise PageUnavailable(f"port {each} of {ADDRESS} cannot be used: {error}; {advice}") from error
            continue
        return listener
    raise AssertionError("one of the ports is taken, or the last one raises")


_SERVER: PageServer | None = None
_LOCK = threading.Lock()


def open_page() -> PageServer:
    """The server of this process, started if there is none."""
    global _SERVER  # noqa: PLW0603 - one per process
    with _LOCK:
        if _SERVER is None or not _SERVER.alive:
            _SERVER = PageServer(RUNS)
        return _SERVER
