"""The calling end: connections to one listener, made when they are needed and used again."""

from __future__ import annotations

import socket
import threading
import time
import weakref
from collections.abc import Callable
from types import TracebackType

from reshape.exchange.errors import CallError, CallFailed, NoAnswer, NotAdmitted, Unreachable
from reshape.exchange.transport import sockets
from reshape.exchange.transport.access import Access
from reshape.exchange.transport.frames import Cause, Frame, Kind, read_failure, read_frame, send_frame
from reshape.exchange.transport.handshake import call_in
from reshape.exchange.transport.pipes import EncryptedPipe, Pipe, PlainPipe, give_up
from reshape.exchange.transport.tls import calling_context

# Where nothing has moved for so long, it is looked up whether anybody listens there. A machine that answers, be its
# process ever so busy, is waited for; one that does not for as long again is gone.
STALL_S = sockets.LOST_S / 2
# A listener whose process is busy lets nobody in; as long as tasks wait for a busy driver.
ADMITTED_WITHIN_S = 180.0


class Client:
    """Any thread may use it. Closing it cuts whatever is under way."""

    def __init__(self, location: str, access: Access) -> None:
        self.location = location
        self._access = access
        self._lock = threading.Lock()
        self._idle: list[Pipe] = []
        self._used: weakref.WeakSet[Pipe] = weakref.WeakSet()
        self._closed = False

    def __repr__(self) -> str:
        return f"Client({self.location!r}, {self._access!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def take(self, within_s: float = ADMITTED_WITHIN_S) -> Pipe:
        """A connection that nobody else uses; give it back, or cut it and let it go."""
        with self._lock:
            while self._idle and not self._closed:
                pipe = self._idle.pop()
                if not pipe.has_news():  # else its end has come, for nothing was asked
                    self._used.add(pipe)
                    return pipe
        return self._connect(time.monotonic() + within_s)

    def give_back(self, pipe: Pipe) -> None:
        """All that was asked has been answered."""
        pipe.stalled = give_up
        with self._lock:
            self._used.discard(pipe)
            if not self._closed:
                self._idle.append(pipe)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._idle.clear()
            for pipe in self._used:
                sockets.cut(pipe.connection)

    def patience(self, deadline: float | None = None) -> Callable[[], None]:
        """What a pipe does when nothing moves: go on as long as somebody listens there and there is time."""

        def stalled() -> None:
            if deadline is not None and time.monotonic() >= deadline:
                raise NoAnswer(f"no answer from {self.location} in time")
            with self._opened(STALL_S):
                pass

        return stalled

    def _opened(self, within_s: float) -> socket.socket:
        try:
            return sockets.open_connection(self.location, within_s)
        except OSError as error:
            raise Unreachable(f"nobody listens at {self.location} ({error})") from error

    def _connect(self, deadline: float) -> Pipe:
        left = deadline - time.monotonic()
        connection = self._opened(max(min(left, sockets.LOST_S), 0.001))
        tls = self._access.tls
        pipe = PlainPipe(connection) if tls is None else EncryptedPipe(connection, calling_context(tls), tls.name)
        pipe.stalled = self.patience(deadline)
        with self._lock:
            if self._closed:
                raise Unreachable(f"the client of {self.location} has been closed")
            self._used.add(pipe)
        try:
            limited(connection, deadline)
            pipe.shake_hands()
            call_in(pipe, self._access.secret)
        except OSError as error:
            raise Unreachable(f"no connection to {self.location} ({error})") from error
        return pipe


def limited(connection: socket.socket, deadline: float) -> None:
    """Look after a while, and at the deadline."""
    sockets.limit(connection, max(min(deadline - time.monotonic(), STALL_S), 0.001))


def connect(location: str, access: Access) -> Client:
    """Nothing is sent before something is asked for."""
    return Client(location, access)


def call(client: Client, action: str, body: bytes, timeout_s: float) -> bytes:
    """One control action and its answer. Raises a :class:`CallError`."""
    deadline = time.monotonic() + timeout_s
    pipe = client.take(timeout_s)
    try:
        pipe.stalled = client.patience(deadline)
        limited(pipe.connection, deadline)
        send_frame(pipe, Frame(Kind.CALL, action.encode(), body))
        limited(pipe.connection, deadline)
        answer = read_frame(pipe)
        if answer.kind not in (Kind.ANSWER, Kind.FAILED):
            raise Unreachable(f"an answer of kind {answer.kind.name} came to a call")
    except OSError as error:
        sockets.cut(pipe.connection)
        raise Unreachable(f"the connection to {client.location} broke ({error})") from error
    except BaseException:
        sockets.cut(pipe.connection)
        raise
    if answer.kind == Kind.ANSWER:
        client.give_back(pipe)
        return bytes(answer.body)
    failure = failure_of(answer)
    if isinstance(failure, CallFailed):
        client.give_back(pipe)
    raise failure


def failure_of(frame: Frame) -> CallError:
    """What the listener says of a failure."""
    cause, text = read_failure(frame)
    kinds: dict[Cause, type[CallError]] = {Cause.CLOSING: Unreachable, Cause.NOT_ADMITTED: NotAdmitted}
    return kinds.get(cause, CallFailed)(text)
