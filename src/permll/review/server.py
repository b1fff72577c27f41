"""Serving: a run at an address of this machine, until somebody ends it."""

import os
import platform
import secrets
import signal
import socket
import webbrowser
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

from permll.cleaning.decisions import Decisions
from permll.cleaning.source_data import load_source
from permll.findings import Findings
from permll.training.run import Run


def require_review() -> None:
    """Complain, with what to do, if what a review is made of is not installed."""
    if not all(find_spec(name) for name in ("starlette", "uvicorn", "jinja2")):
        raise ImportError("a review needs starlette, uvicorn and jinja2: pip install 'permll[review]'")


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    reviewer: str = "",
    ready: Callable[[str], None] = lambda _: None,
) -> int:
    """Let people review the findings of a run in their browsers until Ctrl-C or SIGTERM.

    Args:
        folder: of the run.
        host: the address to bind to.
        port: the port; 0 for any that is free.
        reviewer: who reviews, if the page need not ask.
        ready: is told the address with its token, once requests are answered.

    Returns:
        How many decisions hold at the end.
    """
    from permll.review.app import make_app
    from permll.review.session import ReviewSession

    run = Run.open(folder)
    findings = Findings.load(run.folder)
    decisions = Decisions(run.folder)
    with closing(_listen(host, port)) as listening:  # before anything is read that takes long
        port = listening.getsockname()[1]
        token = secrets.token_urlsafe(32)
        session = ReviewSession(findings, load_source(run), decisions)
        title = run.folder.resolve().name
        app = make_app(session, token=token, host=host, port=port, title=title, reviewer=reviewer)
        ready(f"{address(host, port)}/?token={token}")
        _run_until_told(app, listening)
    return len(decisions.current())


def address(host: str, port: int) -> str:
    """Return where a browser on this machine finds a server.

    Examples:
        >>> address("127.0.0.1", 8000), address("::1", 80), address("0.0.0.0", 80)
        ('http://127.0.0.1:8000', 'http://[::1]:80', 'http://127.0.0.1:80')
    """
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def has_display() -> bool:
    """Return whether a browser that opens could be seen."""
    if platform.system() == "Linux":
        return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return "SSH_CONNECTION" not in os.environ


def open_browser(url: str) -> bool:
    """Open the browser, if there is one; return whether it opened."""
    try:
        return has_display() and webbrowser.open(url)
    except webbrowser.Error:
        return False


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as problem:
        why = problem.strerror or str(problem)
        raise OSError(f"nothing can listen on port {port} of {host} ({why}): try --port 0, any free one.") from None


def _run_until_told(app: object, listening: socket.socket) -> None:
    """Answer requests until SIGINT or SIGTERM: these are how a review ends, not how it fails."""
    import uvicorn

    settings = uvicorn.Config(
        app,  # type: ignore[arg-type]
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=2,  # a tab that is open keeps its connection
    )
    # The server stops by these signals and then raises them again, for whoever listened before: nobody needs to.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        uvicorn.Server(settings).run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
