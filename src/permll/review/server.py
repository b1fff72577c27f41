"""HTTP server of a review, bound to an address of this machine."""

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

from permll.cleaning.review_decisions import Decisions
from permll.cleaning.source import load_source
from permll.findings import Findings
from permll.training.run import Run
from permll.utils.messages import install_hint


def require_review() -> None:
    """Raise an ImportError with the command to install the missing dependencies."""
    if not all(find_spec(name) for name in ("starlette", "uvicorn")):
        raise ImportError(f"a review needs starlette and uvicorn: {install_hint('review')}")


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    reviewer: str = "",
    ready: Callable[[str], None] = lambda _: None,
) -> int:
    """Serve the review of a run until Ctrl-C or SIGTERM.

    Args:
        folder: folder of the run.
        host: address to bind to.
        port: port; 0 for any free one.
        reviewer: name of the reviewer; by default the page asks for it.
        ready: called with the URL and its token when the server accepts connections.

    Returns:
        Number of decisions in force at the end.
    """
    from permll.review.app import make_app
    from permll.review.session import ReviewSession

    run = Run.open(folder)
    findings = Findings.load(run.folder)
    decisions = Decisions(run.folder)
    with closing(_bind(host, port)) as sock:  # before the data is loaded, which may take long
        port = sock.getsockname()[1]
        token = secrets.token_urlsafe(32)
        session = ReviewSession(findings, load_source(run), decisions)
        title = run.folder.resolve().name
        app = make_app(session, token=token, host=host, port=port, title=title, reviewer=reviewer)
        _run_server(app, sock, lambda: ready(f"{server_url(host, port)}/?token={token}"))
    return len(decisions.current())


def server_url(host: str, port: int) -> str:
    """Return the URL of a server for browsers on this machine.

    Examples:
        >>> server_url("127.0.0.1", 8000), server_url("::1", 80), server_url("0.0.0.0", 80)
        ('http://127.0.0.1:8000', 'http://[::1]:80', 'http://127.0.0.1:80')
    """
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def has_display() -> bool:
    """Return whether a browser window would be visible."""
    if platform.system() == "Linux":
        return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return "SSH_CONNECTION" not in os.environ


def open_browser(url: str) -> bool:
    """Open a URL in the browser; return whether it worked."""
    try:
        return has_display() and webbrowser.open(url)
    except webbrowser.Error:
        return False


def _bind(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"cannot listen on port {port} of {host} ({reason}): use --port 0 for any free port.") from None


def _run_server(app: object, sock: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM, both of which end a review normally once ``ready`` is called."""
    import uvicorn

    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=2,  # open tabs keep their connections
    )
    server = uvicorn.Server(config)

    def stop(*_: object) -> None:
        server.should_exit = True

    # For signals before uvicorn handles them, and those that it raises again after shutdown.
    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ready()
        server.run(sockets=[sock])
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
