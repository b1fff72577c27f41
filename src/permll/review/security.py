"""Access control of the review server.

A review is for a browser on the same machine. So every request needs a secret token, must be addressed to a name of
this machine (which prevents DNS rebinding), and must come from the review's own page to change something.
"""

import hmac
import ipaddress
import socket
from urllib.parse import urlsplit

from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp

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


def is_allowed_host(host: str, bound: str) -> bool:
    """Return whether a Host header names this machine, for a server bound to an address.

    A server bound to all addresses also allows IP addresses, which cannot be rebound, and the machine's host name.

    Examples:
        >>> [is_allowed_host(host, "127.0.0.1") for host in ("127.0.0.1:8000", "[::1]:80", "evil.example")]
        [True, True, False]
        >>> is_allowed_host("192.168.1.7:8000", "0.0.0.0"), is_allowed_host("evil.example", "0.0.0.0")
        (True, False)
    """
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")  # without the port
    except ValueError:
        return False
    if name in (*LOOPBACK_NAMES, bound.casefold()):
        return bool(name)
    bound_address = _parse_ip_address(bound)
    if bound_address is None or not bound_address.is_unspecified:
        return False
    machine = socket.gethostname().casefold()
    return _parse_ip_address(name) is not None or name in (machine, f"{machine}.local")


class LocalOnlyMiddleware(BaseHTTPMiddleware):
    """Rejects requests without the token or from another origin, and adds security headers to all responses.

    Args:
        app: the protected application.
        token: the secret. It comes once in the URL, then in a cookie that scripts cannot read.
        host: address the server is bound to.
        cookie: name of the cookie. Cookies ignore ports, so two reviews at once need two names.
    """

    def __init__(self, app: ASGIApp, *, token: str, host: str, cookie: str) -> None:
        super().__init__(app)
        self.token, self.host, self.cookie = token, host, cookie

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Reject a request, or pass it on."""
        response = self._rejection(request) or await call_next(request)
        if self._is_token(_token_in_url(request)):  # the page removes the token from the address bar
            response.headers.append("Set-Cookie", f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/")
        response.headers.update(SECURITY_HEADERS)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    def _rejection(self, request: Request) -> Response | None:
        """Return the response to a forbidden request; None for an allowed one."""
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not is_allowed_host(hosts[0], self.host):
            return PlainTextResponse(WRONG_HOST, 421)
        tokens = (request.cookies.get(self.cookie, ""), _token_in_url(request))
        if not any(map(self._is_token, tokens)):
            return PlainTextResponse(MISSING_TOKEN, 403)
        if not _is_same_origin(request):
            return JSONResponse({"message": CROSS_ORIGIN}, 403)
        content_type = request.headers.get("content-type", "").split(";")[0].strip()
        if request.method not in SAFE_METHODS and content_type != "application/json":
            return JSONResponse({"message": NOT_JSON}, 415)
        return None

    def _is_token(self, token: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self.token.encode())


def _token_in_url(request: Request) -> str:
    """Return the token in the URL of the first page; other URLs cannot carry it."""
    tokens = request.query_params.getlist("token")
    return tokens[0] if request.scope["path"] == "/" and request.method == "GET" and len(tokens) == 1 else ""


def _is_same_origin(request: Request) -> bool:
    """Return whether a request comes from the review's own page; the page itself may be opened from anywhere."""
    headers, site = request.headers, request.headers.get("sec-fetch-site", "same-origin")
    if request.method in SAFE_METHODS:
        is_page = request.scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"
        return site in ("same-origin", "none") or is_page
    allowed = [f"{scheme}://{headers['host']}".casefold() for scheme in ("http", "https")]  # https behind a proxy
    return site == "same-origin" and headers.get("origin", "").casefold() in allowed


def _parse_ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
