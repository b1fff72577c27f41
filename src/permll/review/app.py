"""Web application of a review: routes, and validation of requests."""

import json
import secrets
from dataclasses import replace
from importlib.resources import files
from typing import Any, cast

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from permll.cleaning.review_decisions import VERDICTS, Verdict
from permll.review.queue import MAX_PAGE_SIZE, Filter
from permll.review.security import LocalOnlyMiddleware
from permll.review.session import ReviewSession

SCRIPTS = (
    *("main", "api", "dom", "preview", "sample_view", "grid_view", "matrix_view", "picker", "searches", "keyboard"),
    *("filter", "messages"),
)
ASSETS = {
    "style.css": "text/css",
    "icon.svg": "image/svg+xml",
    **{f"{name}.js": "text/javascript" for name in SCRIPTS},
}
MAX_BODY_BYTES = 64 * 1024
MAX_NAME_LENGTH = 80
MAX_QUERY_LENGTH = 200


def make_app(
    session: ReviewSession, *, token: str, host: str = "127.0.0.1", port: int = 0, title: str, reviewer: str = ""
) -> ASGIApp:
    """Return the application of a review.

    Args:
        session: the review.
        token: secret that every request needs.
        host: address the server is bound to.
        port: port of the server, part of the cookie's name.
        title: name of the run on the page.
        reviewer: name of the reviewer; by default the page asks for it.
    """
    page = _render_page(title=title, reviewer=reviewer, version=secrets.token_hex(4))
    api = _Api(session)
    routes = [
        Route("/", lambda _: HTMLResponse(page)),
        Route("/assets/{name}", _asset),
        Route("/images/{row:int}/{size:int}", api.image),
        Route("/api/samples", api.samples),
        Route("/api/samples/{row:int}", api.sample),
        Route("/api/pairs", api.pairs),
        Route("/api/classes", api.classes),
        Route("/api/search", api.search),
        Route("/api/matrix", api.matrix),
        Route("/api/progress", api.progress),
        Route("/api/decide", api.decide, methods=["POST"]),
        Route("/api/undo", api.undo, methods=["POST"]),
    ]
    handlers = dict.fromkeys((HTTPException, ValueError, OSError), _error_response)
    app = Starlette(routes=routes, exception_handlers=handlers)
    return LocalOnlyMiddleware(app, token=token, host=host, cookie=f"permll-review-{port}")


class _Api:
    """Endpoints. Those that are not ``async`` run in threads."""

    def __init__(self, session: ReviewSession) -> None:
        self.session = session

    def samples(self, request: Request) -> Response:
        """Return a page of samples."""
        params = request.query_params
        before = _parse_int(params.get("before")) if "before" in params else None
        after, limit = _parse_int(params.get("after", "0")), _parse_int(params.get("limit", "24"))
        return JSONResponse(self.session.page(_parse_filter(request), after=after, before=before, limit=limit))

    def sample(self, request: Request) -> Response:
        """Return a sample in detail, and its position among those that match the filter; None if it does not match."""
        row, filter_ = self._check_row(request.path_params["row"]), _parse_filter(request)
        item, queue, codes = self.session.detail(row), self.session.queue, self.session.state.codes
        place = queue.place(row, filter_.sort)
        before, until = (queue.count(filter_, codes, max_place=last) for last in (place - 1, place))
        position = until if until > before else None
        overview = self.session.overview(filter_)
        return JSONResponse({"item": {**item, "place": place}, "position": position, **overview})

    def pairs(self, request: Request) -> Response:
        """Return pairs of given and proposed class."""
        self.session.refresh()
        query = _parse_query(request, "query")
        pairs = self.session.queue.pairs(_parse_filter(request), self.session.state.codes, query)
        return JSONResponse({"pairs": pairs})

    def matrix(self, request: Request) -> Response:
        """Return the number of samples by given and proposed class."""
        self.session.refresh()
        filter_ = replace(_parse_filter(request), pair=None)
        matrix = self.session.queue.matrix(filter_, self.session.state.codes)
        return JSONResponse({**matrix, **self.session.overview(filter_)})

    def classes(self, request: Request) -> Response:
        """Return classes, and whether the query can become one."""
        return JSONResponse(self.session.classes(_parse_query(request, "query")))

    def search(self, request: Request) -> Response:
        """Return samples by id."""
        return JSONResponse(self.session.search(_parse_query(request, "query")))

    def progress(self, _: Request) -> Response:
        """Return a sentence about wrong labels found and left."""
        return JSONResponse({"sentence": self.session.progress_sentence()})

    def image(self, request: Request) -> Response:
        """Return the image of a sample. Browsers may cache it, since its URL changes with every start."""
        image = self.session.thumbnail(self._check_row(request.path_params["row"]), request.path_params["size"])
        if image is None:
            raise HTTPException(404, "this sample has no readable image.")
        return Response(image.content, media_type=image.type, headers={"Cache-Control": "private, max-age=86400"})

    async def decide(self, request: Request) -> Response:
        """Record a verdict on one or several samples; 409 if there is a newer decision on one of them."""
        body = await _read_json(request)
        reviewer, verdict, label = _parse_reviewer(body), body.get("verdict"), body.get("label", "")
        add_class = body.get("add_class", False)
        if verdict not in VERDICTS or not isinstance(label, str) or not isinstance(add_class, bool):
            raise ValueError(
                f"verdict must be one of {', '.join(VERDICTS)}, label a string, and add_class true or false."
            )
        samples = self._parse_samples(body.get("samples"))
        items, conflicts = await run_in_threadpool(
            self.session.decide_all, samples, cast(Verdict, verdict), label, reviewer, add_class=add_class
        )
        overview = self.session.overview(_parse_filter(request))
        return JSONResponse({"items": items, "conflicts": conflicts, **overview}, 409 if conflicts else 200)

    async def undo(self, request: Request) -> Response:
        """Undo the latest decision of a reviewer."""
        reviewer = _parse_reviewer(await _read_json(request))
        row, decision = await run_in_threadpool(self.session.undo, reviewer)
        item = None if row is None else await run_in_threadpool(self.session.detail, row)
        undone = None if decision is None else decision._asdict()
        return JSONResponse({"item": item, "undone": undone, **self.session.overview(_parse_filter(request))})

    def _check_row(self, row: int) -> int:
        if not 0 <= row < len(self.session.findings):
            raise HTTPException(404, "unknown sample.")
        return row

    def _parse_samples(self, samples: Any) -> list[dict[str, int]]:
        if not isinstance(samples, list) or not 1 <= len(samples) <= MAX_PAGE_SIZE:
            raise ValueError(f"samples must be a list of 1 to {MAX_PAGE_SIZE}.")
        for sample in samples:
            if not isinstance(sample, dict) or not all(type(sample.get(key)) is int for key in ("row", "last_entry")):
                raise ValueError("each sample needs row and last_entry as integers.")
        return [{"row": self._check_row(sample["row"]), "last_entry": sample["last_entry"]} for sample in samples]


def _render_page(**context: Any) -> str:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined)
    return environment.from_string(_read("index.html").decode()).render(**context)


def _asset(request: Request) -> Response:
    """Return a file of the page; only listed names are served."""
    name = request.path_params["name"]
    if name not in ASSETS:
        raise HTTPException(404, "unknown file.")
    return Response(_read(name), media_type=ASSETS[name], headers={"Cache-Control": "no-cache"})


def _read(name: str) -> bytes:
    return files("permll.review").joinpath("page", name).read_bytes()


def _parse_filter(request: Request) -> Filter:
    params = request.query_params
    pair = tuple(_parse_int(part) for part in params["pair"].split("-")) if params.get("pair") else None
    if pair is not None and len(pair) != 2:
        raise ValueError("pair must be two class indices such as 3-5.")
    find, sort = _parse_query(request, "find"), params.get("sort", "suspicion")
    return Filter(params.get("state", "open"), params.get("all") == "1", pair, find, sort)


def _parse_query(request: Request, name: str) -> str:
    query = request.query_params.get(name, "")
    if len(query) > MAX_QUERY_LENGTH:
        raise ValueError(f"{name} must have at most {MAX_QUERY_LENGTH} characters.")
    return query


def _parse_int(text: str | None) -> int:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 12:
        raise ValueError("expected a non-negative integer.")
    return int(text)


def _parse_reviewer(body: dict[str, Any]) -> str:
    name = body.get("reviewer")
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise ValueError(f"reviewer must be a name of 1 to {MAX_NAME_LENGTH} characters.")
    return name.strip()


async def _read_json(request: Request) -> dict[str, Any]:
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > MAX_BODY_BYTES:
            raise HTTPException(413, "the request is too large.")
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("the request is not valid JSON.") from None
    if not isinstance(body, dict):
        raise ValueError("expected a JSON object.")
    return body


def _error_response(_: Request, error: Exception) -> Response:
    """Return an error as one sentence."""
    if isinstance(error, HTTPException):
        return JSONResponse({"message": error.detail}, error.status_code)
    return JSONResponse({"message": str(error)}, 500 if isinstance(error, OSError) else 400)
