"""Who may look: a token, the right name of the host, reading only; and headers that keep pages to themselves.

A page elsewhere on the web cannot read this one: it has no token, its cookie is not sent along, and a name that it
points at this machine (DNS rebinding) is not the name that this server answers to.
"""

import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; font-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""For pages that are one file with its script and style inside: an origin of their own, from which nothing of this
server can be read, and no address to send anything to."""
_HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_LONGEST_TOKEN = 200


def new_token() -> str:
    """256 bits from the system."""
    return secrets.token_urlsafe(32)


def answered_hosts(host: str, port: int, more: Iterable[str] = ()) -> frozenset[str]:
    """The Host headers that are answered: loopback by all its names, the address that is listened at, and `more`.

    >>> sorted(answered_hosts("127.0.0.1", 80, ["viewer.clinic"]))[-3:]
    ['localhost:80', 'viewer.clinic', 'viewer.clinic:80']
    """
    names = {"127.0.0.1", "localhost", "[::1]", *(name.lower() for name in more)}
    if host not in ("0.0.0.0", "::"):
        names.add(f"[{host}]" if ":" in host else host.lower())
    ported = {name if _has_port(name) else f"{name}:{port}" for name in names}
    return frozenset(ported | (names if port == 80 else set()))


def _has_port(name: str) -> bool:
    return name.rpartition(":")[2].isdecimal() and not name.endswith("]")


@dataclass(frozen=True)
class Guarded:
    """An app behind the door. Nothing is answered before host, method and token are right."""

    app: ASGIApp
    token: str = field(repr=False)
    hosts: frozenset[str]
    cookie: str = "fluoroscope"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI calls it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            answer = self._refusal(scope)
            await (answer or self.app)(scope, receive, _with_headers(send))
        else:  # a websocket
            await send({"type": "websocket.close", "code": 1008})

    def _refusal(self, scope: Scope) -> Response | None:
        """What is answered in the place of the app, if anything."""
        headers = Headers(scope=scope)
        named = headers.getlist("host")
        if len(named) != 1 or named[0].lower() not in self.hosts:
            return PlainTextResponse("This server does not answer to that name of a host.\n", 421)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("This server is for reading only.\n", 405, {"Allow": "GET, HEAD"})
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)[:20]
        if any(name == "token" and self._right(value) for name, value in query):
            return self._without_token(scope["path"], [pair for pair in query if pair[0] != "token"])
        if any(map(self._right, _presented(headers, self.cookie))):
            return None
        return PlainTextResponse(
            "This page needs the token: open the address that `fluoroscope serve` printed.\n",
            401,
            {"WWW-Authenticate": "Bearer"},
        )

    def _right(self, token: str) -> bool:
        return len(token) <= _LONGEST_TOKEN and hmac.compare_digest(
            token.encode("utf-8", "replace"), self.token.encode()
        )

    def _without_token(self, path: str, query: list[tuple[str, str]]) -> Response:
        """To the same page, so that the token stays in no history; from here on the cookie has it."""
        # Two slashes would begin the name of another host.
        address = "/" + quote(path.lstrip("/\\")) + (f"?{urlencode(query)}" if query else "")
        answer = RedirectResponse(address, 303)
        answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
        return answer


def _presented(headers: Headers, cookie: str) -> list[str]:
    """The tokens that a request shows."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    found = [value.strip()] if scheme.lower() == "bearer" else []
    pairs = (pair.strip().partition("=") for line in headers.getlist("cookie") for pair in line.split(";")[:50])
    return found + [value for name, _, value in pairs if name == cookie]


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                if name not in headers:
                    headers[name] = value
        await send(message)

    return sending
