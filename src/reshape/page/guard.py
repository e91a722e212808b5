"""Who may see the page: a browser on this machine that was given the token, under a name of this machine.

Every other request is refused with 403. The name is checked, or a page of a stranger whose name resolves to 127.0.0.1
could ask on behalf of its visitor (DNS rebinding).
"""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_BYTES = 32
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
# Own files only: no script of anybody else, none within the page, no frame around it.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
REFUSED = (
    "403: this page is for whoever started the flow.\n"
    "Open the whole address that query.url or `reshape replay` gives, with its token.\n"
)


def new_token() -> str:
    """256 bits that nobody can guess."""
    return secrets.token_urlsafe(TOKEN_BYTES)


class Guard:
    """In front of the application. A token in the address is exchanged for a cookie, which scripts cannot read."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = {f"{name}:{port}" for name in LOOPBACK_NAMES}
        # Cookies do not know ports: another process has its own.
        self._cookie = f"reshape-page-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        by_address = scope["method"] == "GET" and scope["path"] == "/" and self._is_token(given)
        allowed = by_address or self._is_token(self._from_cookie(headers.get("cookie", "")))
        if headers.get("host", "").lower() not in self._hosts or not allowed or not self._is_own(scope, headers):
            await _refuse(send)
            return
        cookie = f"{self._cookie}={self._token.decode()}; Path=/; HttpOnly; SameSite=Strict" if by_address else None

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [pair for pair in message.get("headers", []) if pair[0].lower() != b"cache-control"]
                message["headers"] = kept + _headers(cookie)
            await send(message)

        await self._app(scope, receive, guarded)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token)

    def _from_cookie(self, header: str) -> str:
        try:
            found = SimpleCookie(header).get(self._cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value

    def _is_own(self, scope: Scope, headers: dict[str, str]) -> bool:
        """What changes something comes from the page itself: browsers say where a request was made."""
        if scope["method"] in ("GET", "HEAD"):
            return True
        return headers.get("origin", "").lower() == f"http://{headers.get('host', '').lower()}"


def _headers(cookie: str | None) -> list[tuple[bytes, bytes]]:
    pairs = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    return pairs if cookie is None else [*pairs, (b"set-cookie", cookie.encode())]


async def _refuse(send: Send) -> None:
    plain = [(b"content-type", b"text/plain; charset=utf-8"), *_headers(None)]
    await send({"type": "http.response.start", "status": 403, "headers": plain})
    await send({"type": "http.response.body", "body": REFUSED.encode()})
