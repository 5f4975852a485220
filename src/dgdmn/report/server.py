"""`dgdmn watch` as a web server for this machine alone: a few fixed routes, read-only, and no more.

Any page open in a browser can send requests to 127.0.0.1. So only our own names are answered (a foreign name
that resolves to 127.0.0.1 is refused), nothing can be changed, and answers may neither be framed nor read by
other pages. A path is looked up, never joined to a directory.
"""

import re
import socketserver
import sys
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path

from dgdmn.errors import DgdmnError, UsageError
from dgdmn.report import page
from dgdmn.report.site import Answer, Draw, Site

HOST = "127.0.0.1"


def draw(runs: Sequence[Path]) -> str:
    """The page that follows these runs."""
    return page.render(runs, live=True)


class Server(ThreadingHTTPServer):
    """Listens on loopback. `serve_forever` answers, `address` says where."""

    daemon_threads = True

    def __init__(self, paths: Sequence[Path], port: int, draw: Draw = draw, **options: float) -> None:
        if not 0 <= port <= 65535:
            raise UsageError(f"port is {port}: choose 1024 to 65535, or 0 for any that is free")
        super().__init__((HOST, port), Handler, bind_and_activate=False)
        try:
            self.server_bind()
            self.server_activate()
        except OSError as error:
            super().server_close()
            raise DgdmnError(
                f"cannot listen on port {port}: {error.strerror}; choose another with --port, 0 for any"
            ) from error
        self.names = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}
        if self.server_port == 80:
            self.names |= {HOST, "localhost"}
        self.script = (files("dgdmn.report") / "live.js").read_bytes()
        self.policy = f"{page.csp(live=True)}; frame-ancestors 'none'"
        self.site = Site(paths, draw, **options)

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://{HOST}:{self.server_port}/"

    def server_bind(self) -> None:
        """Bind without asking the network for this machine's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def server_close(self) -> None:
        """Give the port back and draw no more."""
        super().server_close()
        self.site.close()

    def handle_error(self, *_: object) -> None:
        """A browser that goes away is no news; anything else is a line."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            sys.stderr.write(f"dgdmn: a request failed: {type(error).__name__}: {error}\n")


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD on the fixed routes."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 60
    # Headers and content leave in one packet: the second would wait 40 ms for the first's receipt.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def parse_request(self) -> bool:
        """Refuse what is not for us before anything else is looked at."""
        if not super().parse_request():
            return False
        names = self.headers.get_all("Host", [])
        if len(names) != 1 or names[0].lower() not in self.server.names:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
        elif self.command not in ("GET", "HEAD"):
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
        else:
            return True
        return False

    def do_GET(self) -> None:
        """Look the path up."""
        path, site = self.path.partition("?")[0], self.server.site
        if path in ("/", "/report"):
            self._tell("text/html; charset=utf-8", site.page())
        elif path == "/state":
            self._tell("application/json", site.state())
        elif path == "/live.js":
            self._tell("text/javascript; charset=utf-8", Answer(self.server.script, ""))
        elif path == "/favicon.ico":
            self._send(HTTPStatus.NO_CONTENT)
        elif (key := re.fullmatch(r"/dreams/([0-9a-f]{16})\.png", path)) and (png := site.dreams(key[1])):
            self._tell("image/png", Answer(png, ""))
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def do_HEAD(self) -> None:
        """The same without the content."""
        self.do_GET()

    def _tell(self, kind: str, answer: Answer) -> None:
        if answer.tag and self.headers.get("If-None-Match") == answer.tag:
            self._send(HTTPStatus.NOT_MODIFIED, ETag=answer.tag)
            return
        tag = {"ETag": answer.tag} if answer.tag else {}
        self._send(HTTPStatus.OK, answer.content, **{"Content-Type": kind}, **tag)

    def send_error(self, code: int, *_: object, **__: object) -> None:
        """Say no in a line; what follows on this connection is not read."""
        status = HTTPStatus(code)
        self.close_connection = True
        headers = {"Content-Type": "text/plain; charset=utf-8", "Connection": "close"}
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = "GET, HEAD"
        self._send(status, f"{status.phrase}\n".encode(), **headers)

    def _send(self, status: HTTPStatus, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        fixed = {
            "Cache-Control": "no-store",
            "Content-Security-Policy": self.server.policy,
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        for name, value in {**fixed, **headers}.items():
            self.send_header(name, value)
        if status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if getattr(self, "command", "") != "HEAD":
            self.wfile.write(content)

    def version_string(self) -> str:
        """Which program this is, without versions."""
        return "dgdmn"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class's name)
        """Say nothing: a page that polls would fill the terminal."""
