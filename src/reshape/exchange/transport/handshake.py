"""Who gets in: both sides show that they know the secret of the run, and neither sends it.

Each side sends a number that nobody has seen before, and proves itself by a keyed hash (HMAC-SHA256) of both. All
messages have a fixed length of some ten bytes, so a caller who knows no secret can make nobody read more than that. Who
stands between the two can pass the proofs on and read along: against that there is TLS.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterable

from reshape.exchange.errors import NotAdmitted
from reshape.exchange.transport.pipes import Pipe

_MAGIC = b"reshape\x01"
_NONCE = 32
_PROOF = 32
_ADMITTED, _REFUSED = b"+", b"-"


class Stranger(ConnectionError):
    """Whoever is at the other side does not know the secret, or does not speak this protocol."""


def call_in(pipe: Pipe, secret: str) -> None:
    """The caller's part. Raises :class:`NotAdmitted` where the secret is not the listener's, :class:`Stranger` where
    somebody else listens there."""
    ours = secrets.token_bytes(_NONCE)
    pipe.send([_MAGIC + ours])
    both = ours + _read_hello(pipe)
    pipe.send([_proof(secret, b"caller", both)])
    verdict = _read(pipe, 1 + _PROOF)
    if verdict[:1] == _REFUSED:
        raise NotAdmitted("this run's secret is missing or wrong")
    if not hmac.compare_digest(verdict, _ADMITTED + _proof(secret, b"listener", both)):
        raise Stranger("somebody who does not know this run's secret listens there")


def let_in(pipe: Pipe, known: Callable[[], Iterable[str]]) -> str:
    """The listener's part; the secret that the caller knows."""
    theirs = _read_hello(pipe)
    ours = secrets.token_bytes(_NONCE)
    pipe.send([_MAGIC + ours])
    both = theirs + ours
    proof = _read(pipe, _PROOF)
    # All of them are compared, whichever it is.
    fitting = [secret for secret in known() if hmac.compare_digest(proof, _proof(secret, b"caller", both))]
    if not fitting:
        pipe.send([_REFUSED + bytes(_PROOF)])
        raise Stranger("a caller does not know the secret of a run that is known here")
    pipe.send([_ADMITTED + _proof(fitting[0], b"listener", both)])
    return fitting[0]


def _read_hello(pipe: Pipe) -> bytes:
    hello = _read(pipe, len(_MAGIC) + _NONCE)
    if not hello.startswith(_MAGIC):
        raise Stranger("something else than this protocol is spoken there")
    return hello[len(_MAGIC) :]


def _read(pipe: Pipe, length: int) -> bytes:
    data = bytearray(length)
    pipe.read_into(memoryview(data))
    return bytes(data)


def _proof(secret: str, side: bytes, nonces: bytes) -> bytes:
    return hmac.digest(secret.encode(), side + nonces, "sha256")
