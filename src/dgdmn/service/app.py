"""`dgdmn watch`: a web server for this machine alone, with a few fixed routes, read-only.

Any page in a browser can send requests to 127.0.0.1. So only our own host names are answered (a foreign name
that resolves to 127.0.0.1 is refused), nothing can be changed, and other pages can neither frame nor read the
answers. A path is looked up, never joined to a directory.
"""

import socketserver
import sys
import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.core.files import json_bytes
from dgdmn.core.text import printable
from dgdmn.report.artifacts import dreams_png, newest_dreams
from dgdmn.report.load import load_runs
from dgdmn.report.page import content_policy, render
from dgdmn.service.status import run_id, run_stamp, summarize, watched_runs

HOST = "127.0.0.1"
FIRST = 2.0  # seconds to wait for the first report before an empty page is shown
QUICK = 1.0  # a report that is drawn in so many seconds is drawn before it is served
HEADERS = {
    "Allow": "GET, HEAD",
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"{content_policy(live=True)}; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "dgdmn",
    "X-Content-Type-Options": "nosniff",
}
Draw = Callable[[Sequence[Path]], str]


def draw_page(directories: Sequence[Path]) -> str:
    """The page that follows these runs."""
    return render(*load_runs(directories), live=True)


class Site:
    """Serves the report and the state of the runs.

    A background thread renders the report again when runs have changed and a request has come. A page that is
    rendered quickly is up to date; no request waits for a slow one.
    """

    def __init__(self, paths: Sequence[Path], draw: Draw, pause: float) -> None:
        self._paths, self._draw, self._pause, self._empty = paths, draw, pause, draw([])
        # Page, version, problem: replaced at once. A browser may still show a page of an earlier server.
        self._shown = ("", int(time.time()), "")
        self._seen: dict[Path, object] | None = None
        self._asked, self._drawn, self._closed = (threading.Event() for _ in range(3))
        self._drawing, self._took = threading.Lock(), 0.0  # seconds of the last drawing
        threading.Thread(target=self._draw_changes, daemon=True, name="report").start()

    def page(self) -> bytes:
        """The newest report; an empty page if the first one takes long."""
        self._asked.set()
        if self._drawn.wait(FIRST) and self._took < QUICK:
            self._update()
        html, version, _ = self._shown
        main = '<main id="report"'
        return (html or self._empty).replace(main, f'{main} data-version="{version}"', 1).encode()

    def state(self) -> bytes:
        """The state of the runs and of the report as JSON."""
        self._asked.set()
        _, version, problem = self._shown
        runs = summarize(watched_runs(self._paths), time.time())
        where = ", ".join(map(printable, self._paths))
        return json_bytes({"version": version, "problem": problem, "where": where, **runs})

    def dreams(self, url: str) -> bytes | None:
        """The newest dreams of a run as PNG; None if there are none."""
        runs = {f"/dreams/{run_id(path)}.png": path for path in watched_runs(self._paths)}
        newest = newest_dreams(runs[url]) if url in runs else None
        return dreams_png(newest) if newest else None

    def close(self) -> None:
        self._closed.set()
        self._asked.set()

    def _draw_changes(self) -> None:
        while not self._closed.is_set():
            self._asked.wait()
            self._asked.clear()
            if self._update():
                self._closed.wait(max(self._pause, 4 * self._took))

    def _update(self) -> bool:
        """Render the report if runs have changed since the last time."""
        with self._drawing:
            began, (html, version, _), problem = time.monotonic(), self._shown, ""
            try:
                stamps: dict[Path, object] = {p: run_stamp(p) for p in watched_runs(self._paths)}
                if stamps == self._seen:
                    return False
                self._seen, html = stamps, self._draw(list(stamps))
            except Exception as error:  # the runs continue, and so does the page
                problem = f"the report could not be drawn: {type(error).__name__}: {error}"
            self._shown = (html, version + (html != self._shown[0]), problem)
            self._took = time.monotonic() - began
            self._drawn.set()
            return True


HTML, SCRIPT = "text/html; charset=utf-8", Path(__file__).with_name("live.js").read_bytes()
ROUTES: dict[str, tuple[str, Callable[[Site], bytes | None]]] = {
    "/": (HTML, Site.page),
    "/report": (HTML, Site.page),
    "/state": ("application/json", Site.state),
    "/live.js": ("text/javascript; charset=utf-8", lambda _: SCRIPT),
    "/favicon.ico": ("", lambda _: b""),
}


class Server(socketserver.ThreadingTCPServer):
    """Listens on loopback. `serve_forever` answers, `address` is where."""

    daemon_threads = allow_reuse_address = True

    def __init__(self, paths: Sequence[Path], port: int, draw: Draw = draw_page, pause: float = 1):
        if not 0 <= port <= 65535:
            raise UsageError(f"port is {port}; choose 1024 to 65535, or 0 for any free one")
        self.site = Site([Path(path) for path in paths], draw, pause)
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            reason = f"{error.strerror}; choose another with --port, 0 for any"
            raise DgdmnError(f"cannot listen on port {port}: {reason}") from error
        self.port = int(self.server_address[1])
        self.address = f"http://{HOST}:{self.port}/"
        self.hosts = {f"{HOST}:{self.port}", f"localhost:{self.port}"}
        self.hosts |= {HOST, "localhost"} if self.port == 80 else set()

    def server_close(self) -> None:
        super().server_close()
        self.site.close()

    def handle_error(self, *_: object) -> None:
        """Print one line; a closed connection is not an error."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            sys.stderr.write(f"dgdmn: a request failed: {type(error).__name__}: {error}\n")


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD on the fixed routes."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 60
    wbufsize = 1 << 16  # headers and content leave in one packet
    disable_nagle_algorithm = True

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        hosts = self.headers.get_all("Host", [])
        ours = len(hosts) == 1 and hosts[0].lower() in self.server.hosts
        if ours and self.command in ("GET", "HEAD"):
            return True
        self.send_error(HTTPStatus.METHOD_NOT_ALLOWED if ours else HTTPStatus.MISDIRECTED_REQUEST)
        return False

    def do_GET(self) -> None:
        path, site = self.path.partition("?")[0], self.server.site
        kind, answer = ROUTES.get(path, ("image/png", lambda site: site.dreams(path)))
        if (content := answer(site)) is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self._send(HTTPStatus.OK if content else HTTPStatus.NO_CONTENT, kind, content)

    do_HEAD = do_GET  # noqa: N815

    def send_error(self, code: int, *_: object, **__: object) -> None:
        """Refuse in one line and close the connection."""
        self.close_connection = True
        status = HTTPStatus(code)
        self._send(status, "text/plain; charset=utf-8", f"{status.phrase}\n".encode())

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response_only(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(content))} if content else {}
        headers |= {"Connection": "close"} if self.close_connection else {}
        for name, value in (HEADERS | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if getattr(self, "command", "") != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing: a page that polls would fill the terminal."""
