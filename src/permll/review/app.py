"""The application: its addresses, what they take and answer. The desk does the work, the guard says who may."""

import json
import secrets
from importlib.resources import files
from typing import Any, cast

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from permll.cleaning.decisions import VERDICTS, Verdict
from permll.review.queue import MOST, Filter
from permll.review.security import LocalOnlyMiddleware
from permll.review.session import ReviewSession

ASSETS = {
    "style.css": "text/css",
    "icon.svg": "image/svg+xml",
    **{
        f"{name}.js": "text/javascript"
        for name in ("main", "server", "making", "samples", "one", "grid", "choosing", "keys", "telling")
    },
}
LONGEST_BODY = 64 * 1024
LONGEST_NAME = 80


def make_app(
    session: ReviewSession, *, token: str, host: str = "127.0.0.1", port: int = 0, title: str, reviewer: str = ""
) -> ASGIApp:
    """Return the application of a review.

    Args:
        desk: what is reviewed.
        token: the secret that every request needs.
        host: the address the server is bound to.
        port: its port, which the cookie is named after.
        title: what the page calls the run.
        reviewer: who reviews, if the page need not ask.
    """
    names = {
        "title": title,
        "reviewer": reviewer,
        "classes": len(session.findings.classes),
        "version": secrets.token_hex(4),
    }
    page = _page(**names)
    api = _Api(session)
    routes = [
        Route("/", lambda _: HTMLResponse(page)),
        Route("/page/{name}", _asset),
        Route("/picture/{row:int}/{side:int}", api.picture),
        Route("/api/list", api.findings),
        Route("/api/pairs", api.pairs),
        Route("/api/classes", api.classes),
        Route("/api/sample/{row:int}", api.sample),
        Route("/api/decide", api.decide, methods=["POST"]),
        Route("/api/undo", api.undo, methods=["POST"]),
    ]
    sorry = dict.fromkeys((HTTPException, ValueError, OSError), _sorry)
    app = Starlette(routes=routes, exception_handlers=sorry)
    return LocalOnlyMiddleware(app, token=token, host=host, cookie=f"permll-review-{port}")


class _Api:
    """What the page asks for. Each method is one address; those that are not ``async`` run in threads."""

    def __init__(self, session: ReviewSession) -> None:
        self.session = session

    def findings(self, request: Request) -> Response:
        """Return a page of findings."""
        asked = request.query_params
        before = _number(asked.get("before")) if "before" in asked else None
        after, limit = _number(asked.get("after", "0")), _number(asked.get("limit", "24"))
        return JSONResponse(self.session.page(_wish(request), after=after, before=before, limit=limit))

    def pairs(self, request: Request) -> Response:
        """Return pairs of classes, given and proposed, that occur."""
        self.session.catch_up()
        query = request.query_params.get("query", "")
        return JSONResponse({"pairs": self.session.queue.pairs(_wish(request), self.session.state.state, query)})

    def classes(self, request: Request) -> Response:
        """Return class names."""
        return JSONResponse({"classes": self.session.classes(request.query_params.get("query", ""))})

    def sample(self, request: Request) -> Response:
        """Return a finding with all that helps to decide, and where it stands in what is wished for."""
        row, filter_ = self._row(request.path_params["row"]), _wish(request)
        item = self.session.detail(row)
        before, until = (
            self.session.queue.count(filter_, self.session.state.state, until=rank)
            for rank in (item["rank"] - 1, item["rank"])
        )
        place = until if until > before else None  # None: it is not among those wished for
        return JSONResponse({"item": item, "place": place, **self.session.overview(filter_)})

    def picture(self, request: Request) -> Response:
        """Return the picture of a sample; the browser may keep it, as its address changes with every start."""
        picture = self.session.picture(self._row(request.path_params["row"]), request.path_params["side"])
        if picture is None:
            raise HTTPException(404, "this sample has no picture that can be read.")
        return Response(picture.content, media_type=picture.type, headers={"Cache-Control": "private, max-age=86400"})

    async def decide(self, request: Request) -> Response:
        """Write down a verdict on one or several samples: 409 if somebody was faster with one of them."""
        body = await _body(request)
        reviewer, verdict, label = _reviewer(body), body.get("verdict"), body.get("label", "")
        if verdict not in VERDICTS or not isinstance(label, str):
            raise ValueError(f"a verdict is one of {', '.join(VERDICTS)}, and a label a text.")
        rows = self._seen_rows(body.get("samples"))
        items, conflicts = await run_in_threadpool(
            self.session.decide_all, rows, cast(Verdict, verdict), label, reviewer
        )
        more = self.session.overview(_wish(request))
        return JSONResponse({"items": items, "conflicts": conflicts, **more}, 409 if conflicts else 200)

    async def undo(self, request: Request) -> Response:
        """Take back the latest decision of a reviewer."""
        reviewer = _reviewer(await _body(request))
        row, decision = await run_in_threadpool(self.session.undo, reviewer)
        item = None if row is None else await run_in_threadpool(self.session.detail, row)
        undone = None if decision is None else decision._asdict()
        return JSONResponse({"item": item, "undone": undone, **self.session.overview(_wish(request))})

    def _row(self, row: int) -> int:
        if not 0 <= row < len(self.session.findings):
            raise HTTPException(404, "there is no such sample.")
        return row

    def _seen_rows(self, samples: Any) -> list[dict[str, int]]:
        if not isinstance(samples, list) or not 1 <= len(samples) <= MOST:
            raise ValueError(f"a verdict is on 1 to {MOST} samples.")
        for one in samples:
            if not isinstance(one, dict) or not all(type(one.get(key)) is int for key in ("row", "seen")):
                raise ValueError("each sample needs its row and the newest entry that was seen, as whole numbers.")
        return [{"row": self._row(one["row"]), "seen": one["seen"]} for one in samples]


def _page(**names: Any) -> str:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined)
    return environment.from_string(_read("index.html").decode()).render(**names)


def _asset(request: Request) -> Response:
    """Return a file of the page: one of those listed, so no name can lead anywhere else."""
    name = request.path_params["name"]
    if name not in ASSETS:
        raise HTTPException(404, "there is no such page.")
    return Response(_read(name), media_type=ASSETS[name], headers={"Cache-Control": "no-cache"})


def _read(name: str) -> bytes:
    return files("permll.review").joinpath("page", name).read_bytes()


def _wish(request: Request) -> Filter:
    asked = request.query_params
    pair = tuple(_number(part) for part in asked["pair"].split("-")) if asked.get("pair") else None
    if pair is not None and len(pair) != 2:
        raise ValueError("a pair is two numbers of classes, as in 3-5.")
    return Filter(asked.get("state", "open"), asked.get("all") == "1", pair)


def _number(text: str | None) -> int:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 12:
        raise ValueError("a whole number was expected.")
    return int(text)


def _reviewer(body: dict[str, Any]) -> str:
    name = body.get("reviewer")
    if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise ValueError(f"a reviewer needs a name of 1 to {LONGEST_NAME} characters.")
    return name.strip()


async def _body(request: Request) -> dict[str, Any]:
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > LONGEST_BODY:
            raise HTTPException(413, "this is more than a verdict can be.")
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("this is no JSON.") from None
    if not isinstance(body, dict):
        raise ValueError("a JSON object was expected.")
    return body


def _sorry(_: Request, problem: Exception) -> Response:
    """Answer what cannot be done with one sentence."""
    if isinstance(problem, HTTPException):
        return JSONResponse({"message": problem.detail}, problem.status_code)
    return JSONResponse({"message": str(problem)}, 500 if isinstance(problem, OSError) else 400)
