"""Local web servers: with or without ranges, and with broken connections."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass
class Server:
    """Files, behavior and request log of a server.

    Args:
        files: name -> content.
        ranges: whether it supports ranges; otherwise it sends everything.
        break_after: number of bytes of a response before it disconnects.
        shift: offset in bytes from the requested range.
        requests: (name, Range header) of every request.
        sent: number of bytes sent.
    """

    files: dict[str, bytes]
    ranges: bool = True
    break_after: int | None = None
    shift: int = 0
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    sent: int = 0


@contextmanager
def serving(server: Server) -> Iterator[str]:
    """Run ``server`` on a free port of 127.0.0.1 while the block runs, and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, requested = self.path.lstrip("/"), self.headers.get("Range")
            server.requests.append((name, requested))
            if name not in server.files:
                self.send_error(404)
                return
            content, begin = server.files[name], 0
            if requested and server.ranges:
                begin = int(requested.removeprefix("bytes=").removesuffix("-")) + server.shift
                if begin >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(content) - begin))
            self.end_headers()
            rest = content[begin:][: server.break_after]
            server.sent += len(rest)
            self.wfile.write(rest)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}"
        finally:
            running.shutdown()
            thread.join()
