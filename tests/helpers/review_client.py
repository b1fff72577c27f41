"""Clients of the review application: one that behaves like a browser, and one that sends raw requests."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

TOKEN = "a-token-for-tests"
HOST = "127.0.0.1:8000"
ORIGIN = f"http://{HOST}"
COOKIE = ("cookie", f"permll-review-8000={TOKEN}")
PAGE_HEADERS = [
    ("host", HOST),
    COOKIE,
    ("origin", ORIGIN),
    ("sec-fetch-site", "same-origin"),
    ("content-type", "application/json"),
]
Headers = list[tuple[str, str]]


def open_client(app: Any) -> Any:
    """Return a test client that has opened the address with its token, and sends the headers of a browser."""
    from starlette.testclient import TestClient

    client = TestClient(app, base_url=ORIGIN, headers={"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"})
    assert client.get(f"/?token={TOKEN}").status_code == 200
    return client


class RawResponse(NamedTuple):
    """Response of the application."""

    status: int
    headers: dict[str, str]
    body: bytes


def headers_without(*names: str) -> Headers:
    """Return the headers of the review's own page without some of them."""
    return [(name, value) for name, value in PAGE_HEADERS if name not in names]


def send_raw(
    app: Any, path: str, headers: Headers, *, method: str = "GET", query: str = "", body: bytes = b""
) -> RawResponse:
    """Send exactly these headers and this path, which a browser could not."""
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode("latin-1"),
        "root_path": "",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8000),
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    with ThreadPoolExecutor(1) as executor:  # Playwright may run an event loop in this thread
        executor.submit(lambda: asyncio.run(app(scope, receive, send))).result()
    response_headers = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    return RawResponse(sent[0]["status"], response_headers, b"".join(message.get("body", b"") for message in sent[1:]))
