"""Attacks on the review server, with requests that browsers would not send."""

import json
import os
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from permll.review.app import ASSETS, make_app
from permll.review.security import SECURITY_HEADERS, is_allowed_host
from permll.review.session import ReviewSession
from permll.training.run import Run
from tests.helpers.review_client import (
    COOKIE,
    HOST,
    PAGE_HEADERS,
    TOKEN,
    Headers,
    RawResponse,
    headers_without,
    send_raw,
)
from tests.helpers.review_runs import SCRIPT, add_findings, make_run, make_session

VERDICT = json.dumps({"samples": [{"row": 0, "last_entry": 0}], "verdict": "keep", "reviewer": "Ada"}).encode()


def decide(app: Any, headers: Headers, **options: Any) -> RawResponse:
    return send_raw(app, "/api/decide", headers, method="POST", body=VERDICT, **options)


ROUTES = [
    "/",
    "/assets/style.css",
    "/assets/main.js",
    "/images/0/160",
    "/api/samples",
    "/api/pairs",
    "/api/classes",
    "/api/search",
    "/api/matrix",
    "/api/progress",
]


@pytest.mark.parametrize("path", [*ROUTES, "/api/samples/0", "/api/decide", "/api/undo", "/nothing"])
def test_requests_need_token(app: Any, session: ReviewSession, path: str) -> None:
    wrong = [
        [],
        [("cookie", "permll-review-8000=")],
        [("cookie", f"permll-review-8000={TOKEN[:-1]}")],
        [("cookie", f"permll-review-8000={TOKEN}x")],
        [("cookie", f"permll-review-8001={TOKEN}")],  # of a review on another port
        [("cookie", f"x={TOKEN}")],
        [("cookie", "permll-review-8000=\xff\xfe; ;;=;")],
        [("authorization", f"Bearer {TOKEN}")],
    ]
    for method in ("GET", "POST"):
        for headers in wrong:
            response = send_raw(app, path, [*headers_without("cookie"), *headers], method=method, body=VERDICT)
            assert response.status == 403
            assert "set-cookie" not in response.headers
            for secret in (b"film", b"Review 1", TOKEN.encode()):
                assert secret not in response.body
    assert session.decisions.log() == []


def test_token_in_url_opens_only_first_page(app: Any, session: ReviewSession) -> None:
    bare = headers_without("cookie")
    query = f"token={TOKEN}"
    opened = send_raw(app, "/", bare, query=query)
    assert opened.status == 200
    assert opened.headers["set-cookie"] == f"permll-review-8000={TOKEN}; HttpOnly; SameSite=Strict; Path=/"
    assert TOKEN.encode() not in opened.body
    for wrong in ("token=", "token=x", f"token={TOKEN}x", f"token={TOKEN}&token=x", f"Token={TOKEN}", "token=%ff%00"):
        assert send_raw(app, "/", bare, query=wrong).status == 403
    assert send_raw(app, "/api/samples", bare, query=query).status == 403
    assert send_raw(app, "/api/decide", bare, query=query, method="POST", body=VERDICT).status == 403
    assert send_raw(app, "/", bare, query=query, method="POST", body=VERDICT).status == 403
    assert session.decisions.log() == []


@given(st.text(max_size=50))
@settings(max_examples=10)
def test_wrong_token_is_refused(text: str) -> None:
    app = _Lonely.app()
    if text != TOKEN:
        from urllib.parse import quote

        assert send_raw(app, "/", [("host", HOST)], query=f"token={quote(text, errors='replace')}").status == 403


class _Lonely:
    """A guarded application that fails on every request it gets."""

    @staticmethod
    def app() -> Any:
        from permll.review.security import LocalOnlyMiddleware

        async def nobody(*_: Any) -> None:
            raise AssertionError("somebody came through")

        return LocalOnlyMiddleware(nobody, token=TOKEN, host="127.0.0.1", cookie="permll-review-8000")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example#127.0.0.1",
        "127.0.0.1@evil.example",
        "192.168.1.7:8000",
        "0.0.0.0",
        "[::2]:8000",
        "[",
        "",
        "local host",
    ],
)
def test_foreign_host_is_refused(app: Any, session: ReviewSession, host: str) -> None:
    for headers in (
        [*headers_without("host"), ("host", host)],
        [*PAGE_HEADERS, ("host", host)],
    ):  # instead of the right one, and beside it
        assert send_raw(app, "/", headers, query=f"token={TOKEN}").status == 421
        assert decide(app, headers).status == 421
    assert send_raw(app, "/", headers_without("host")).status == 421
    assert session.decisions.log() == []


def test_local_hosts_are_allowed(app: Any, session: ReviewSession) -> None:
    for host in (
        "127.0.0.1:8000",
        "localhost:8000",
        "LOCALHOST",
        "localhost:9000",
        "[::1]:8000",
    ):  # through a tunnel, too
        assert send_raw(app, "/", [("host", host), COOKIE]).status == 200
    assert is_allowed_host("lab.example:80", "lab.example")
    assert not is_allowed_host("lab.example:80", "127.0.0.1")
    for bound in ("0.0.0.0", "::"):
        assert is_allowed_host("10.0.0.5:80", bound)
        assert is_allowed_host("[fe80::1]:80", bound)
        assert not is_allowed_host("evil.example", bound)
        assert not is_allowed_host("", bound)
    other = make_app(session, token=TOKEN, host="0.0.0.0", port=8000, title="run")
    assert send_raw(other, "/", [("host", "10.0.0.5:8000"), COOKIE]).status == 200
    assert send_raw(other, "/", [("host", "evil.example"), COOKIE]).status == 421


@pytest.mark.parametrize(
    "headers",
    [
        headers_without("origin"),
        [*headers_without("origin"), ("origin", "null")],
        [*headers_without("origin"), ("origin", "http://evil.example")],
        [*headers_without("origin"), ("origin", "http://127.0.0.1:9000")],  # another program of this machine
        [*headers_without("origin"), ("origin", "http://localhost:8000")],
        [*headers_without("origin"), ("origin", "http://127.0.0.1:8000.evil.example")],
        [*headers_without("origin"), ("origin", "file://")],
        [*headers_without("sec-fetch-site"), ("sec-fetch-site", "cross-site")],
        [*headers_without("sec-fetch-site"), ("sec-fetch-site", "same-site")],
        [*headers_without("sec-fetch-site"), ("sec-fetch-site", "none")],
    ],
)
def test_cross_origin_post_is_refused(app: Any, session: ReviewSession, headers: list[tuple[str, str]]) -> None:
    assert decide(app, headers).status == 403
    assert send_raw(app, "/api/undo", headers, method="POST", body=b'{"reviewer": "Ada"}').status == 403
    assert session.decisions.log() == []
    assert decide(app, PAGE_HEADERS).status == 200  # the review's own page can


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_cross_site_get_is_refused(app: Any, site: str) -> None:
    there = [("host", HOST), COOKIE, ("sec-fetch-site", site)]
    for path in ROUTES[1:]:
        assert send_raw(app, path, [*there, ("sec-fetch-mode", "no-cors")]).status == 403
        assert send_raw(app, path, [*there, ("sec-fetch-mode", "navigate")]).status == 403
    assert send_raw(app, "/", [*there, ("sec-fetch-mode", "no-cors")]).status == 403
    assert send_raw(app, "/", [*there, ("sec-fetch-mode", "navigate")]).status == 200


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json", "application/jsonp"],
)
def test_form_content_types_are_refused(app: Any, session: ReviewSession, kind: str) -> None:
    assert decide(app, [*headers_without("content-type"), ("content-type", kind)]).status == 415
    assert decide(app, headers_without("content-type")).status == 415
    assert session.decisions.log() == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "X"])
def test_only_post_is_allowed(app: Any, session: ReviewSession, method: str) -> None:
    assert send_raw(app, "/api/decide", PAGE_HEADERS, method=method, body=VERDICT).status == 405
    assert session.decisions.log() == []


def test_responses_have_security_headers(app: Any) -> None:
    responses = [
        *(send_raw(app, path, PAGE_HEADERS) for path in ROUTES),
        send_raw(app, "/", []),
        send_raw(app, "/", [("host", HOST)]),
        send_raw(app, "/nothing", PAGE_HEADERS),
        send_raw(app, "/api/samples", PAGE_HEADERS, query="state=x"),
        decide(app, headers_without("origin")),
        decide(app, PAGE_HEADERS),
    ]
    for response in responses:
        for name, value in SECURITY_HEADERS.items():
            assert response.headers[name.lower()] == value
        assert response.headers["cache-control"]
        assert "access-control-allow-origin" not in response.headers
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == "'self'"
    assert "unsafe" not in policy
    assert SECURITY_HEADERS["X-Content-Type-Options"] == "nosniff"
    assert SECURITY_HEADERS["Referrer-Policy"] == "no-referrer"
    page = send_raw(app, "/", PAGE_HEADERS).body.decode()
    assert not re.findall(r"<script(?![^>]*\bsrc=)|\bon\w+=|style=|https?://", page)  # the policy would break them


OUTSIDE = [
    "../app.py",
    "..%2fapp.py",
    "%2e%2e/app.py",
    "..\\\\app.py",
    "/etc/passwd",
    "//etc/passwd",
    "index.html",
    ".",
]


@pytest.mark.parametrize("name", [*OUTSIDE, "style.css/..", "style.css\x00.js", "", "STYLE.CSS", "../assets/style.css"])
def test_assets_prevent_path_traversal(app: Any, name: str) -> None:
    response = send_raw(app, f"/assets/{name}", PAGE_HEADERS)
    assert response.status == 404
    assert b"import " not in response.body
    assert b"root:" not in response.body


@pytest.mark.parametrize(
    "path",
    [
        "0",
        "-1",
        "40",
        "99999999999999999999",
        "0x1",
        "..",
        "bad/00.png",
        "../../../etc/passwd",
        "%2e%2e%2fetc%2fpasswd",
        "1.0",
    ],
)
def test_samples_are_addressed_by_row(run_of: Callable[[str], Run], tmp_path: Path, path: str) -> None:
    app = make_app(make_session(run_of("images"), tmp_path), token=TOKEN, port=8000, title="run")
    known = path == "0"
    assert send_raw(app, f"/images/{path}/160", PAGE_HEADERS).status == (200 if known else 404)
    assert send_raw(app, f"/api/samples/{path}", PAGE_HEADERS).status == (200 if known else 404)
    for side in ("0", "161", "99999", "-1"):
        assert send_raw(app, f"/images/{path}/{side}", PAGE_HEADERS).status in (400, 404)


def test_symlinks_are_served_only_if_listed(tmp_path: Path) -> None:
    run = make_run("images", tmp_path)
    source = tmp_path / "pictures"
    Image.new("RGB", (30, 30), "red").save(tmp_path / "listed.png")
    Image.new("RGB", (30, 30), "blue").save(tmp_path / "beside.png")
    os.symlink(tmp_path / "listed.png", source / "bad" / "link.png")
    findings = add_findings(run)
    app = make_app(make_session(run), token=TOKEN, port=8000, title="run")
    (row,) = [row for row, id in enumerate(findings.ids) if id == "bad/link.png"]
    assert send_raw(app, f"/images/{row}/160", PAGE_HEADERS).status == 200
    assert not any("beside" in id for id in findings.ids)
    for path in ("beside.png", "../beside.png", "bad/link.png", "pictures/bad/00.png"):
        for route in ("/images/", "/assets/", "/api/samples/", "/"):
            assert send_raw(app, route + path, PAGE_HEADERS).status == 404


def test_decompression_bomb_is_refused(tmp_path: Path) -> None:
    """A few bytes that say they are 30,000 pixels a side, put where an image was when the data were read."""
    session = make_session(make_run("images", tmp_path))
    app = make_app(session, token=TOKEN, port=8000, title="run")
    image = tmp_path / "pictures" / session.findings.ids[0]
    small = image.read_bytes()
    head = b"IHDR" + struct.pack(">II", 30_000, 30_000) + small[24:29]
    image.write_bytes(small[:12] + head + struct.pack(">I", zlib.crc32(head)) + small[33:])
    response = send_raw(app, "/images/0/160", PAGE_HEADERS)
    assert response.status == 404
    assert "no readable image" in json.loads(response.body)["message"]
    assert send_raw(app, "/api/samples/0", PAGE_HEADERS).status == 200


@pytest.mark.parametrize("name", ["title", "reviewer"])
def test_page_escapes_names(session: ReviewSession, name: str) -> None:
    names = {"title": "run", name: f'"><img src=x onerror=alert(1)>{SCRIPT}'}
    page = send_raw(make_app(session, token=TOKEN, port=8000, **names), "/", PAGE_HEADERS).body.decode()
    assert "<img src=x" not in page
    assert SCRIPT not in page
    assert "&#34;&gt;&lt;img src=x" in page


def test_markup_is_sent_as_json(app: Any) -> None:
    body = json.dumps({"samples": [{"row": 0, "last_entry": 0}], "verdict": "keep", "reviewer": SCRIPT}).encode()
    decided = send_raw(app, "/api/decide", PAGE_HEADERS, method="POST", body=body)
    for response in (
        decided,
        send_raw(app, "/api/samples/0", PAGE_HEADERS),
        send_raw(app, "/api/classes", PAGE_HEADERS),
    ):
        assert response.headers["content-type"] == "application/json"
        json.loads(response.body)
    assert json.loads(decided.body)["items"][0]["decision"]["reviewer"] == SCRIPT


def test_scripts_never_parse_markup() -> None:
    from importlib.resources import files

    for name in ASSETS:
        text = files("permll.review").joinpath("page", name).read_text()
        if name.endswith(".js"):
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc", text
            )
        if name != "icon.svg":
            assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)  # nothing is fetched from elsewhere


def test_server_error_is_one_sentence(app: Any, session: ReviewSession) -> None:
    session.decisions.path.parent.joinpath("decisions.sqlite").write_bytes(b"no database" * 100)
    response = decide(app, PAGE_HEADERS)
    assert response.status == 500
    assert "cannot be used" in json.loads(response.body)["message"]
    assert b"Traceback" not in response.body
    assert response.headers["x-content-type-options"] == "nosniff"
