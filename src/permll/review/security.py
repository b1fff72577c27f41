"""The guard: who may speak to a review. It stands before every page and answers those who may not itself.

A review is for a person with a browser on the same machine. So each request needs a secret token, must be addressed to
a name of this machine (a page elsewhere could have its own name point here), and to change something, it must come
from the review's own page.
"""

import hmac
import ipaddress
import socket
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCAL = ("localhost", "127.0.0.1", "::1")
SAFE = ("GET", "HEAD")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
NO_TOKEN = "This page opens with the whole address that permll review printed: it ends in a token.\n"
WRONG_NAME = "A review answers only to the address it was started for: use the one that permll review printed.\n"
ELSEWHERE = "this was not asked by the page of this review, so nothing was done."


def host_name(host: str) -> str:
    """Return the name in a Host header or of an origin, without its port.

    Examples:
        >>> host_name("localhost:8000"), host_name("[::1]:80"), host_name("Example.org.")
        ('localhost', '::1', 'example.org')
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
    return name.rstrip(".")


def is_own_name(host: str, bound: str) -> bool:
    """Return whether a Host header names this machine, for a server that is bound to an address.

    One that is bound to every address answers to numbers, which no foreign name can stand for, and to its own name.

    Examples:
        >>> is_own_name("127.0.0.1:8000", "127.0.0.1"), is_own_name("evil.example", "127.0.0.1")
        (True, False)
        >>> is_own_name("192.168.1.7:8000", "0.0.0.0"), is_own_name("evil.example", "0.0.0.0")
        (True, False)
    """
    name = host_name(host)
    if name in (*LOCAL, bound.casefold()):
        return bool(name)
    if not _is_every_address(bound):
        return False
    return _is_number(name) or name in (socket.gethostname().casefold(), f"{socket.gethostname()}.local".casefold())


class LocalOnlyMiddleware:
    """Lets through who has the token and comes from the right place, and adds headers of caution to every answer.

    Args:
        app: what is guarded.
        token: the secret. It comes once in the address, then in a cookie that scripts cannot read.
        host: the address the server is bound to.
        cookie: its name. Cookies do not know ports, so two reviews at once need two names.
    """

    def __init__(self, app: ASGIApp, *, token: str, host: str, cookie: str) -> None:
        self.app, self.token, self.host, self.cookie = app, token, host, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":
            return  # no websockets here; the server closes them

        first = self._same(_token_in_address(scope))

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if first:  # from now on the cookie speaks, and the page takes the token out of the address bar
                    headers.append("Set-Cookie", f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/")
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await (self._refusal(scope) or self.app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return what to say to those who may not; None if they may."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not is_own_name(hosts[0], self.host):
            return PlainTextResponse(WRONG_NAME, 421)
        if not self._knows_token(scope, headers):
            return PlainTextResponse(NO_TOKEN, 403)
        if not _from_own_page(scope, headers):
            return JSONResponse({"message": ELSEWHERE}, 403)
        if scope["method"] not in SAFE and headers.get("content-type", "").split(";")[0].strip() != "application/json":
            return JSONResponse({"message": "what changes something is sent as JSON."}, 415)
        return None

    def _knows_token(self, scope: Scope, headers: Headers) -> bool:
        """Return whether the token is in a cookie, or in the address of the first page."""
        sent = [_cookie(text, self.cookie) for text in headers.getlist("cookie")]
        return any(self._same(token) for token in [*sent, _token_in_address(scope)])

    def _same(self, token: str) -> bool:
        """Compare in a time that does not tell how much of it was right."""
        return hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self.token.encode())


def _token_in_address(scope: Scope) -> str:
    if scope["path"] != "/" or scope["method"] != "GET":
        return ""
    values = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
    return values[0] if len(values) == 1 else ""


def _cookie(text: str, name: str) -> str:
    try:
        found: Any = SimpleCookie(text).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _from_own_page(scope: Scope, headers: Headers) -> bool:
    """Return whether a request was made by the review's own page; to open that, one may come from anywhere."""
    site = headers.get("sec-fetch-site", "same-origin")
    if scope["method"] in SAFE:
        return site in ("same-origin", "none") or (scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate")
    origin = headers.get("origin", "")
    own = [f"{scheme}://{headers['host']}".casefold() for scheme in ("http", "https")]  # the latter behind a proxy
    return site == "same-origin" and origin.casefold() in own


def _is_every_address(host: str) -> bool:
    return _is_number(host) and ipaddress.ip_address(host).is_unspecified


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
