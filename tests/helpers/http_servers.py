"""Web servers on this machine: one that knows ranges, one that does not, one that breaks off in the middle."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass
class Server:
    """What a server offers, how it behaves, and what it was asked.

    Args:
        files: name -> content.
        ranges: whether it sends the part that it is asked for; otherwise always everything.
        break_after: how many bytes of an answer it sends before it hangs up.
        shift: by how many bytes it misses the part that it is asked for.
        asked: (name, Range header) of every request.
        sent: how many bytes it has sent.
    """

    files: dict[str, bytes]
    ranges: bool = True
    break_after: int | None = None
    shift: int = 0
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    sent: int = 0


@contextmanager
def serving(server: Server) -> Iterator[str]:
    """Run ``server`` on a free port of 127.0.0.1 while the block runs, and give its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, asked = self.path.lstrip("/"), self.headers.get("Range")
            server.asked.append((name, asked))
            if name not in server.files:
                self.send_error(404)
                return
            content, begin = server.files[name], 0
            if asked and server.ranges:
                begin = int(asked.removeprefix("bytes=").removesuffix("-")) + server.shift
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
