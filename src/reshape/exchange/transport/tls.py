"""TLS by Python's ssl module: the texts of a :class:`Tls` as contexts."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from reshape.exchange.transport.access import Tls


@lru_cache(maxsize=8)
def listening_context(tls: Tls) -> ssl.SSLContext:
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    _show(context, tls)
    context.num_tickets = 0  # nobody resumes a session, and all that comes to a client is then an answer
    if tls.mutual:
        context.verify_mode = ssl.CERT_REQUIRED
        _trust(context, tls)
    return context


@lru_cache(maxsize=8)
def calling_context(tls: Tls) -> ssl.SSLContext:
    """Checks the certificate and the name in it."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    _trust(context, tls)
    if tls.mutual:
        _show(context, tls)
    return context


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def _trust(context: ssl.SSLContext, tls: Tls) -> None:
    # People write comments beside certificates.
    context.load_verify_locations(cadata=tls.authority.encode("ascii", "ignore").decode())


def _show(context: ssl.SSLContext, tls: Tls) -> None:
    with _in_memory(tls.certificate) as certificate, _in_memory(tls.key) as key:
        context.load_cert_chain(certificate, key)


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """The path of a file that is in memory only: the ssl module reads keys from files alone."""
    number = os.memfd_create("reshape", os.MFD_CLOEXEC)
    try:
        with os.fdopen(number, "wb", closefd=False) as file:
            file.write(text.encode())
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)
