"""A listener: one thread waits for all connections that have nothing under way, a crew serves those that have.

Callers who have not shown yet that they know a secret are strangers: there are at most MOST_STRANGERS of them, each has
HANDSHAKE_S, and what they send is read no further than the handshake needs.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import pyarrow as pa

from reshape.exchange.addresses import AS_NEEDED, Listening, location
from reshape.exchange.transport import sockets
from reshape.exchange.transport.access import Tls
from reshape.exchange.transport.crew import Crew
from reshape.exchange.transport.handshake import Stranger, let_in
from reshape.exchange.transport.pipes import EncryptedPipe, Pipe, PlainPipe
from reshape.exchange.transport.receiving import Receiver, Services
from reshape.exchange.transport.tls import listening_context
from reshape.exchange.wire import StreamName

LOG = logging.getLogger(__name__)

# A sender that still holds its stream open when the listener closes gets this long to end it by itself.
GRACE_S = 0.5
# Whatever waits for a connection ends at once when it is cut; this only bounds the wait for a receiver that is stuck.
SHUTDOWN_S = 10.0
# Callers need milliseconds for it, unless their process is busy.
HANDSHAKE_S = 10.0
MOST_STRANGERS = 100
# How often the listener looks for strangers that take too long, while there are any.
TICK_S = 1.0
# Where no further stranger may come in, those that have not even begun go after so many looks.
CROWDED_TICKS = 2


class _Connection:
    """One caller. ``secret`` is None for a stranger."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.pipe: Pipe | None = None
        self.secret: str | None = None
        self.busy = False
        self.is_reset = False
        # Looks since it came. Not seconds: while this process is busy, strangers have no chance to show what they know.
        self.ticks = 0

    def reset(self) -> None:
        """End it though a thread is at it, which sees that at once or when it goes on."""
        self.is_reset = True
        sockets.reset(self.socket)


class _Bell:
    """Rings when a socket has something to read: once, until it is armed again. Any thread may arm and wake it."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._wake_up, self._woken = socket.socketpair()
        self._poll.register(self._woken, select.EPOLLIN)

    def add(self, watched: socket.socket) -> None:
        self._poll.register(watched, select.EPOLLIN | select.EPOLLONESHOT)

    def arm(self, watched: socket.socket) -> None:
        self._poll.modify(watched, select.EPOLLIN | select.EPOLLONESHOT)

    def wait(self, seconds: float | None) -> list[int]:
        return [number for number, _ in self._poll.poll(seconds) if number != self._woken.fileno()]

    def wake(self) -> None:
        """For good."""
        self._wake_up.close()

    def close(self) -> None:
        self._poll.close()
        self._woken.close()


class Listener:
    """Listens on one address for streams of rows, for control actions and for notes."""

    def __init__(
        self,
        address: str,
        secrets: Callable[[], Iterable[str]],
        tls: Tls | None = None,
        open_stream: Callable[[StreamName, pa.Schema], Receiver] | None = None,
        actions: Mapping[str, Callable[[bytes], bytes]] | None = None,
        notes: Callable[[bytes], None] | None = None,
        listening: Listening = AS_NEEDED,
    ) -> None:
        """``notes`` takes the messages of :class:`NoteLine`, in any thread, those of one line in order."""
        self._address = address
        self._secrets = secrets
        self._context = None if tls is None else listening_context(tls)
        self._services = Services(open_stream, dict(actions or {}), notes)
        self._listening = sockets.open_listener(address, listening)
        self.port: int = self._listening.getsockname()[1]
        self._bell = _Bell()
        self._bell.add(self._listening)
        self._connections: dict[int, _Connection] = {}
        self._strangers: dict[int, _Connection] = {}  # those of them that are, the oldest first
        self._crowded = False
        self._closed = False
        self._changed = threading.Condition()
        self._crew = Crew(f"listener-{self.port}-serve")
        # Not called after a flow: it serves all that come, and is there when none runs.
        self._thread = threading.Thread(target=self._listen, name=f"listener-{self.port}", daemon=True)
        self._thread.start()

    @property
    def location(self) -> str:
        return location("tcp" if self._context is None else "tls", self._address, self.port)

    @property
    def closing(self) -> bool:
        return self._services.closing

    @closing.setter
    def closing(self, value: bool) -> None:
        self._services.closing = value

    def shutdown(self) -> None:
        """Stop listening and end all that is under way."""
        with self._changed:
            first, self._closed = not self._closed, True
        if not first:
            return
        self._bell.wake()
        self._thread.join()
        self._listening.close()
        with self._changed:
            self._cut(idle_only=True)
            self._changed.wait_for(lambda: not self._connections, GRACE_S)
            self._cut()
        if not self._crew.close(SHUTDOWN_S):
            warnings.warn(
                f"a call to {self.location} has not ended {SHUTDOWN_S:.0f} s after its connection was cut",
                ResourceWarning,
                stacklevel=2,
            )
        self._bell.close()

    def _cut(self, idle_only: bool = False) -> None:
        for connection in list(self._connections.values()):
            if not connection.busy:
                self._drop(connection)
            elif not idle_only or connection.secret is None:
                connection.reset()

    # The listening thread

    def _listen(self) -> None:
        looked = time.monotonic()
        while not self._closed:
            for number in self._bell.wait(TICK_S if self._strangers or self._crowded else None):
                if number == self._listening.fileno():
                    self._accept()
                else:
                    self._hand_over(number)
            if time.monotonic() - looked >= TICK_S:
                looked = time.monotonic()
                self._look_at_strangers()

    def _accept(self) -> None:
        with self._changed:
            # Where this is set, others wait in the system's queue until there is room, or for the next look.
            self._crowded = len(self._strangers) >= MOST_STRANGERS or not self._take_one()
            if not self._crowded:
                self._bell.arm(self._listening)

    def _take_one(self) -> bool:
        """Whether there is room for more."""
        try:
            accepted, _ = self._listening.accept()
        except BlockingIOError:  # it has gone again
            return True
        except OSError as error:  # perhaps this process has no more files to open
            LOG.debug("no connection at %s: %s", self.location, error)
            return False
        try:
            sockets.configure(accepted)
            self._bell.add(accepted)
        except OSError as error:
            LOG.debug("no connection at %s: %s", self.location, error)
            accepted.close()
            return False
        number = accepted.fileno()
        self._connections[number] = self._strangers[number] = _Connection(accepted)
        return True

    def _let_more_in(self) -> None:
        if self._crowded and not self._closed:
            self._crowded = False
            self._bell.arm(self._listening)

    def _look_at_strangers(self) -> None:
        with self._changed:
            for stranger in list(self._strangers.values()):
                stranger.ticks += 1
                silent = self._crowded and not stranger.busy
                if stranger.ticks <= (CROWDED_TICKS if silent else HANDSHAKE_S / TICK_S):
                    continue
                LOG.info("a caller at %s did not say in time what it knows", self.location)
                if stranger.busy:
                    stranger.reset()
                else:
                    self._drop(stranger)
            self._let_more_in()

    def _hand_over(self, number: int) -> None:
        with self._changed:
            connection = self._connections.get(number)
            if connection is None or connection.busy:
                return
            connection.busy = True
        try:
            self._crew.do(partial(self._serve, connection))
        except RuntimeError as error:  # the system gives this process no more threads
            LOG.warning("a connection to %s is ended: %s", self.location, error)
            with self._changed:
                self._drop(connection)

    # The crew

    def _serve(self, connection: _Connection) -> None:
        """Serve what a connection has brought, and wait for more of it."""
        goes_on = False
        try:
            goes_on = self._admit(connection) if connection.pipe is None else self._serve_requests(connection)
        except Stranger as error:
            LOG.warning("refused at %s: %s", self.location, error)
        except OSError as error:
            LOG.debug("a connection to %s has ended: %s", self.location, error)
        except Exception:
            LOG.warning("a connection to %s is ended", self.location, exc_info=True)
        with self._changed:
            connection.busy = False
            if goes_on and not (self._closed or connection.is_reset):
                self._bell.arm(connection.socket)
            else:
                self._drop(connection)

    def _admit(self, connection: _Connection) -> bool:
        sockets.limit(connection.socket, HANDSHAKE_S)
        context, accepted = self._context, connection.socket
        pipe = PlainPipe(accepted) if context is None else EncryptedPipe(accepted, context)
        pipe.shake_hands()
        secret = let_in(pipe, self._secrets)
        sockets.limit(connection.socket, 0)
        with self._changed:
            connection.pipe, connection.secret = pipe, secret
            self._strangers.pop(connection.socket.fileno(), None)
            self._let_more_in()
        return not pipe.has_news() or self._serve_requests(connection)

    def _serve_requests(self, connection: _Connection) -> bool:
        pipe = connection.pipe
        assert pipe is not None
        while self._services.serve(pipe, lambda: connection.secret in set(self._secrets())):
            if self._closed or not pipe.has_news():
                return True
        return False

    def _drop(self, connection: _Connection) -> None:
        """Forget a connection that nobody is at."""
        number = connection.socket.fileno()
        self._connections.pop(number, None)
        self._strangers.pop(number, None)
        with contextlib.suppress(OSError):
            connection.socket.close()
        self._let_more_in()
        self._changed.notify_all()
