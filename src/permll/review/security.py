"""Access control of the review server.

A review is for a browser on the same machine. So every request needs a secret token, must be addressed to a name of
this machine (which prevents DNS rebinding), and must come from the review's own page to change something.
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

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
SAFE_METHODS = ("GET", "HEAD")
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
MISSING_TOKEN = "Open the full address that permll review printed: it ends in a token.\n"
WRONG_HOST = "Unknown host: open the address that permll review printed.\n"
CROSS_ORIGIN = "the request does not come from the page of this review; nothing was changed."
NOT_JSON = "requests that change something must be JSON."


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port.

    Examples:
        >>> host_name("localhost:8000"), host_name("[::1]:80"), host_name("Example.org.")
        ('localhost', '::1', 'example.org')
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
    return name.rstrip(".")


def is_allowed_host(host: str, bound: str) -> bool:
    """Return whether a Host header names this machine, for a server bound to an address.

    A server bound to all addresses also allows IP addresses, which cannot be rebound, and the machine's host name.

    Examples:
        >>> is_allowed_host("127.0.0.1:8000", "127.0.0.1"), is_allowed_host("evil.example", "127.0.0.1")
        (True, False)
        >>> is_allowed_host("192.168.1.7:8000", "0.0.0.0"), is_allowed_host("evil.example", "0.0.0.0")
        (True, False)
    """
    name = host_name(host)
    if name in (*LOOPBACK_NAMES, bound.casefold()):
        return bool(name)
    if not _is_unspecified(bound):
        return False
    machine = socket.gethostname().casefold()
    return _is_ip_address(name) or name in (machine, f"{machine}.local")


class LocalOnlyMiddleware:
    """Rejects requests without the token or from another origin, and adds security headers to all responses.

    Args:
        app: the protected application.
        token: the secret. It comes once in the URL, then in a cookie that scripts cannot read.
        host: address the server is bound to.
        cookie: name of the cookie. Cookies ignore ports, so two reviews at once need two names.
    """

    def __init__(self, app: ASGIApp, *, token: str, host: str, cookie: str) -> None:
        self.app, self.token, self.host, self.cookie = app, token, host, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject a request, or pass it on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":
            return  # websockets are not supported; the server closes them

        is_first = self._is_token(_token_in_url(scope))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if is_first:  # the page removes the token from the address bar
                    headers.append("Set-Cookie", f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/")
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await (self._rejection(scope) or self.app)(scope, receive, send_with_headers)

    def _rejection(self, scope: Scope) -> Response | None:
        """Return the response to a forbidden request; None for an allowed one."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not is_allowed_host(hosts[0], self.host):
            return PlainTextResponse(WRONG_HOST, 421)
        if not self._has_token(scope, headers):
            return PlainTextResponse(MISSING_TOKEN, 403)
        if not _is_same_origin(scope, headers):
            return JSONResponse({"message": CROSS_ORIGIN}, 403)
        content_type = headers.get("content-type", "").split(";")[0].strip()
        if scope["method"] not in SAFE_METHODS and content_type != "application/json":
            return JSONResponse({"message": NOT_JSON}, 415)
        return None

    def _has_token(self, scope: Scope, headers: Headers) -> bool:
        """Return whether the token is in a cookie, or in the URL of the first page."""
        tokens = [_read_cookie(text, self.cookie) for text in headers.getlist("cookie")]
        return any(self._is_token(token) for token in [*tokens, _token_in_url(scope)])

    def _is_token(self, token: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self.token.encode())


def _token_in_url(scope: Scope) -> str:
    if scope["path"] != "/" or scope["method"] != "GET":
        return ""
    values = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
    return values[0] if len(values) == 1 else ""


def _read_cookie(text: str, name: str) -> str:
    try:
        cookie: Any = SimpleCookie(text).get(name)
    except CookieError:
        return ""
    return cookie.value if cookie is not None else ""


def _is_same_origin(scope: Scope, headers: Headers) -> bool:
    """Return whether a request comes from the review's own page; the page itself may be opened from anywhere."""
    site = headers.get("sec-fetch-site", "same-origin")
    if scope["method"] in SAFE_METHODS:
        return site in ("same-origin", "none") or (scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate")
    origin = headers.get("origin", "")
    allowed = [f"{scheme}://{headers['host']}".casefold() for scheme in ("http", "https")]  # https behind a proxy
    return site == "same-origin" and origin.casefold() in allowed


def _is_unspecified(host: str) -> bool:
    return _is_ip_address(host) and ipaddress.ip_address(host).is_unspecified


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
