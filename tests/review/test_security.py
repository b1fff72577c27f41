"""Attacks on a review. Each test tries to break one promise, with requests that a browser would not even send."""

import asyncio
import json
import os
import re
import struct
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from permll.review.app import ASSETS, make_app
from permll.review.security import HEADERS, is_own_name
from permll.review.session import ReviewSession
from permll.training.run import Run
from tests.helpers.review_runs import SCRIPT, add_findings, make_desk, make_run
from tests.review.conftest import HOME, TOKEN

HOST = "127.0.0.1:8000"
COOKIE = ("cookie", f"permll-review-8000={TOKEN}")
OWN = [
    ("host", HOST),
    COOKIE,
    ("origin", HOME),
    ("sec-fetch-site", "same-origin"),
    ("content-type", "application/json"),
]
VERDICT = json.dumps({"samples": [{"row": 0, "seen": 0}], "verdict": "keep", "reviewer": "Ada"}).encode()


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def ask(
    app: Any, path: str, headers: list[tuple[str, str]], *, method: str = "GET", query: str = "", body: bytes = b""
) -> Answer:
    """Send exactly these headers and this path, as a program that is not a browser could."""
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

    with ThreadPoolExecutor(1) as alone:  # in this thread Playwright may have a loop of its own
        alone.submit(lambda: asyncio.run(app(scope, receive, send))).result()
    found = [(name.decode(), value.decode("latin-1")) for name, value in sent[0]["headers"]]
    return Answer(sent[0]["status"], dict(found), b"".join(message.get("body", b"") for message in sent[1:]))


def without(*names: str) -> list[tuple[str, str]]:
    return [(name, value) for name, value in OWN if name not in names]


def decide(app: Any, headers: list[tuple[str, str]], **more: Any) -> Answer:
    return ask(app, "/api/decide", headers, method="POST", body=VERDICT, **more)


EVERYTHING = ["/", "/page/style.css", "/page/main.js", "/picture/0/160", "/api/list", "/api/pairs", "/api/classes"]


@pytest.mark.parametrize("path", [*EVERYTHING, "/api/sample/0", "/api/decide", "/api/undo", "/nothing"])
def test_nothing_is_answered_without_the_token(app: Any, session: ReviewSession, path: str) -> None:
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
            answer = ask(app, path, [*without("cookie"), *headers], method=method, body=VERDICT)
            assert answer.status == 403
            assert "set-cookie" not in answer.headers
            for secret in (b"film", b"Review 1", TOKEN.encode()):
                assert secret not in answer.body
    assert session.decisions.log() == []


def test_the_token_in_an_address_opens_the_first_page_alone(app: Any, session: ReviewSession) -> None:
    bare = without("cookie")
    query = f"token={TOKEN}"
    opened = ask(app, "/", bare, query=query)
    assert opened.status == 200
    assert opened.headers["set-cookie"] == f"permll-review-8000={TOKEN}; HttpOnly; SameSite=Strict; Path=/"
    assert TOKEN.encode() not in opened.body
    for wrong in ("token=", "token=x", f"token={TOKEN}x", f"token={TOKEN}&token=x", f"Token={TOKEN}", "token=%ff%00"):
        assert ask(app, "/", bare, query=wrong).status == 403
    assert ask(app, "/api/list", bare, query=query).status == 403
    assert ask(app, "/api/decide", bare, query=query, method="POST", body=VERDICT).status == 403
    assert ask(app, "/", bare, query=query, method="POST", body=VERDICT).status == 403
    assert session.decisions.log() == []


@given(st.text(max_size=50))
@settings(max_examples=10)
def test_no_other_token_opens_it(text: str) -> None:
    app = _Lonely.app()
    if text != TOKEN:
        from urllib.parse import quote

        assert ask(app, "/", [("host", HOST)], query=f"token={quote(text, errors='replace')}").status == 403


class _Lonely:
    """A guard before nothing: whoever comes through is an error."""

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
def test_a_foreign_name_that_points_here_is_not_answered(app: Any, session: ReviewSession, host: str) -> None:
    for headers in (
        [*without("host"), ("host", host)],
        [*OWN, ("host", host)],
    ):  # instead of the right one, and beside it
        assert ask(app, "/", headers, query=f"token={TOKEN}").status == 421
        assert decide(app, headers).status == 421
    assert ask(app, "/", without("host")).status == 421
    assert session.decisions.log() == []


def test_own_names_are_answered(app: Any, session: ReviewSession) -> None:
    for host in (
        "127.0.0.1:8000",
        "localhost:8000",
        "LOCALHOST",
        "localhost:9000",
        "[::1]:8000",
    ):  # through a tunnel, too
        assert ask(app, "/", [("host", host), COOKIE]).status == 200
    assert is_own_name("lab.example:80", "lab.example")
    assert not is_own_name("lab.example:80", "127.0.0.1")
    for bound in ("0.0.0.0", "::"):
        assert is_own_name("10.0.0.5:80", bound)
        assert is_own_name("[fe80::1]:80", bound)
        assert not is_own_name("evil.example", bound)
        assert not is_own_name("", bound)
    other = make_app(session, token=TOKEN, host="0.0.0.0", port=8000, title="run")
    assert ask(other, "/", [("host", "10.0.0.5:8000"), COOKIE]).status == 200
    assert ask(other, "/", [("host", "evil.example"), COOKIE]).status == 421


@pytest.mark.parametrize(
    "headers",
    [
        without("origin"),
        [*without("origin"), ("origin", "null")],
        [*without("origin"), ("origin", "http://evil.example")],
        [*without("origin"), ("origin", "http://127.0.0.1:9000")],  # another program of this machine
        [*without("origin"), ("origin", "http://localhost:8000")],
        [*without("origin"), ("origin", "http://127.0.0.1:8000.evil.example")],
        [*without("origin"), ("origin", "file://")],
        [*without("sec-fetch-site"), ("sec-fetch-site", "cross-site")],
        [*without("sec-fetch-site"), ("sec-fetch-site", "same-site")],
        [*without("sec-fetch-site"), ("sec-fetch-site", "none")],
    ],
)
def test_another_page_cannot_decide_or_undo(app: Any, session: ReviewSession, headers: list[tuple[str, str]]) -> None:
    assert decide(app, headers).status == 403
    assert ask(app, "/api/undo", headers, method="POST", body=b'{"reviewer": "Ada"}').status == 403
    assert session.decisions.log() == []
    assert decide(app, OWN).status == 200  # the review's own page can


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_page_cannot_load_samples_but_may_link_here(app: Any, site: str) -> None:
    there = [("host", HOST), COOKIE, ("sec-fetch-site", site)]
    for path in EVERYTHING[1:]:
        assert ask(app, path, [*there, ("sec-fetch-mode", "no-cors")]).status == 403
        assert ask(app, path, [*there, ("sec-fetch-mode", "navigate")]).status == 403
    assert ask(app, "/", [*there, ("sec-fetch-mode", "no-cors")]).status == 403
    assert ask(app, "/", [*there, ("sec-fetch-mode", "navigate")]).status == 200


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json", "application/jsonp"],
)
def test_what_a_form_can_send_decides_nothing(app: Any, session: ReviewSession, kind: str) -> None:
    assert decide(app, [*without("content-type"), ("content-type", kind)]).status == 415
    assert decide(app, without("content-type")).status == 415
    assert session.decisions.log() == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "X"])
def test_only_post_decides(app: Any, session: ReviewSession, method: str) -> None:
    assert ask(app, "/api/decide", OWN, method=method, body=VERDICT).status == 405
    assert session.decisions.log() == []


def test_every_answer_carries_the_headers_of_caution(app: Any) -> None:
    asked = [
        *(ask(app, path, OWN) for path in EVERYTHING),
        ask(app, "/", []),
        ask(app, "/", [("host", HOST)]),
        ask(app, "/nothing", OWN),
        ask(app, "/api/list", OWN, query="state=x"),
        decide(app, without("origin")),
        decide(app, OWN),
    ]
    for answer in asked:
        for name, value in HEADERS.items():
            assert answer.headers[name.lower()] == value
        assert answer.headers["cache-control"]
        assert "access-control-allow-origin" not in answer.headers
    policy = HEADERS["Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == "'self'"
    assert "unsafe" not in policy
    assert HEADERS["X-Content-Type-Options"] == "nosniff"
    assert HEADERS["Referrer-Policy"] == "no-referrer"
    page = ask(app, "/", OWN).body.decode()
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


@pytest.mark.parametrize("name", [*OUTSIDE, "style.css/..", "style.css\x00.js", "", "STYLE.CSS", "../page/style.css"])
def test_no_name_leads_out_of_the_page(app: Any, name: str) -> None:
    answer = ask(app, f"/page/{name}", OWN)
    assert answer.status == 404
    assert b"import " not in answer.body
    assert b"root:" not in answer.body


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
def test_samples_have_numbers_and_never_paths(run_of: Callable[[str], Run], tmp_path: Path, path: str) -> None:
    app = make_app(make_desk(run_of("images"), tmp_path), token=TOKEN, port=8000, title="run")
    known = path == "0"
    assert ask(app, f"/picture/{path}/160", OWN).status == (200 if known else 404)
    assert ask(app, f"/api/sample/{path}", OWN).status == (200 if known else 404)
    for side in ("0", "161", "99999", "-1"):
        assert ask(app, f"/picture/{path}/{side}", OWN).status in (400, 404)


def test_links_are_followed_only_where_the_data_set_lists_them(tmp_path: Path) -> None:
    run = make_run("images", tmp_path)
    source = tmp_path / "pictures"
    Image.new("RGB", (30, 30), "red").save(tmp_path / "listed.png")
    Image.new("RGB", (30, 30), "blue").save(tmp_path / "beside.png")
    os.symlink(tmp_path / "listed.png", source / "bad" / "link.png")
    found = add_findings(run)
    app = make_app(make_desk(run), token=TOKEN, port=8000, title="run")
    (row,) = [row for row, id in enumerate(found.ids) if id == "bad/link.png"]
    assert ask(app, f"/picture/{row}/160", OWN).status == 200
    assert not any("beside" in id for id in found.ids)
    for path in ("beside.png", "../beside.png", "bad/link.png", "pictures/bad/00.png"):
        for route in ("/picture/", "/page/", "/api/sample/", "/"):
            assert ask(app, route + path, OWN).status == 404


def test_an_image_that_would_fill_the_memory_is_not_opened(tmp_path: Path) -> None:
    """A few bytes that say they are 30,000 pixels a side, put where an image was when the data were read."""
    session = make_desk(make_run("images", tmp_path))
    app = make_app(session, token=TOKEN, port=8000, title="run")
    image = tmp_path / "pictures" / session.findings.ids[0]
    small = image.read_bytes()
    head = b"IHDR" + struct.pack(">II", 30_000, 30_000) + small[24:29]
    image.write_bytes(small[:12] + head + struct.pack(">I", zlib.crc32(head)) + small[33:])
    answer = ask(app, "/picture/0/160", OWN)
    assert answer.status == 404
    assert "no picture that can be read" in json.loads(answer.body)["message"]
    assert ask(app, "/api/sample/0", OWN).status == 200


@pytest.mark.parametrize("name", ["title", "reviewer"])
def test_names_in_the_page_are_escaped(session: ReviewSession, name: str) -> None:
    names = {"title": "run", name: f'"><img src=x onerror=alert(1)>{SCRIPT}'}
    page = ask(make_app(session, token=TOKEN, port=8000, **names), "/", OWN).body.decode()
    assert "<img src=x" not in page
    assert SCRIPT not in page
    assert "&#34;&gt;&lt;img src=x" in page


def test_markup_in_samples_ids_classes_and_reviewers_travels_as_json(app: Any) -> None:
    body = json.dumps({"samples": [{"row": 0, "seen": 0}], "verdict": "keep", "reviewer": SCRIPT}).encode()
    decided = ask(app, "/api/decide", OWN, method="POST", body=body)
    for answer in (decided, ask(app, "/api/sample/0", OWN), ask(app, "/api/classes", OWN)):
        assert answer.headers["content-type"] == "application/json"
        json.loads(answer.body)
    assert json.loads(decided.body)["items"][0]["decision"]["reviewer"] == SCRIPT


def test_scripts_never_read_markup() -> None:
    from importlib.resources import files

    for name in ASSETS:
        text = files("permll.review").joinpath("page", name).read_text()
        if name.endswith(".js"):
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc", text
            )
        if name != "icon.svg":
            assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)  # nothing is fetched from elsewhere


def test_a_failure_inside_is_a_sentence_under_the_same_headers(app: Any, session: ReviewSession) -> None:
    session.decisions.path.parent.joinpath("decisions.sqlite").write_bytes(b"no database" * 100)
    answer = decide(app, OWN)
    assert answer.status == 500
    assert "cannot be used" in json.loads(answer.body)["message"]
    assert b"Traceback" not in answer.body
    assert answer.headers["x-content-type-options"] == "nosniff"
