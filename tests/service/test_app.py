"""The server over real sockets: what it answers, what it refuses, and that it changes nothing."""

import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager

import pytest

from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.records import RunWriter
from dgdmn.service.app import Server

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def drawn(runs):
    """A page that says which rows it was drawn from."""
    rows = [path.name + str((path / "accuracy.csv").read_text().count("\n")) for path in runs]
    return f'<header></header><main id="report">{" ".join(rows)}</main>'


@contextmanager
def serving(root, draw=drawn):
    with Server([root], 0, draw, pause=0.0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def root(tmp_path, writer):
    return tmp_path


@pytest.fixture
def server(root):
    with serving(root) as server:
        yield server


def asked(server, path="/state", method="GET", **headers):
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        answer.content = answer.read()
        return answer


def sent(server, text):
    """What comes back for raw bytes, until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(text.encode())
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")


def state(server):
    return json.loads(asked(server).content)


def until(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def files_in(root):
    return {
        path: (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(root.rglob("*"))
    }


# ---- answers ----


def test_the_routes(server):
    paths = ("/", "/report", "/state", "/live.js")
    kinds = [asked(server, path).getheader("Content-Type") for path in paths]
    html, script = "text/html; charset=utf-8", "text/javascript; charset=utf-8"
    assert kinds == [html, html, "application/json", script]
    assert b"run2</main>" in asked(server, "/?any=thing").content
    assert asked(server, "/favicon.ico").status == 204


def test_the_page_is_the_report(root):
    with Server([root], 0) as server:
        text = server.site.page().decode()
    assert re.search(r'<main id="report" data-version="\d+"', text)
    assert '<div id="live">' in text
    assert "/live.js" in text


def test_the_state_and_the_dreams_of_a_run(server, writer, status):
    (running,) = state(server)["running"]
    assert (running["name"], running["phase"], running["steps"]) == ("run", "learning", 2)
    picture = asked(server, running["dreams"])
    assert picture.getheader("Content-Type") == "image/png"
    assert picture.content.startswith(b"\x89PNG")
    writer.status("stopped", **status)
    assert state(server)["counts"] == {"running": 0, "stopped": 1, "done": 0, "broken": 0}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1.7e308", "1" + "0" * 400])
def test_odd_numbers_leave_the_state_and_the_page_as_they_are(root, writer, number):
    lines = [{"kind": "task_began", "step": "?"}, {"kind": "replayed", "memory": "ltm"}]
    lines[1] |= {"n_tasks": "?", "n_gen": "?", "dreamed": ["?", 1]}
    lines += [{"kind": "recognized", "losses": {"a": ["?"]}}, {"kind": "sleep_ended"}]
    events = "".join(json.dumps(line | {"seconds": "?"}) + "\n" for line in lines)
    (writer.directory / "events.jsonl").write_text(events.replace('"?"', number))
    names = ("share", "step", "steps", "seconds", "seconds_left", "acc", "pid", "phase", "task")
    text = json.dumps(dict.fromkeys(names, "?") | {"heartbeat": "2026-01-01T00:00:00+00:00"})
    (writer.directory / "status.json").write_text(text.replace('"?"', number))
    with Server([root], 0) as server:
        page, answer = server.site.page().decode(), server.site.state()
    refuse = lambda constant: pytest.fail(f"{constant} is not JSON")  # noqa: E731
    assert json.loads(answer, parse_constant=refuse)["problem"] == ""
    assert "not a run" not in page


def test_a_new_row_makes_a_new_version_and_an_event_does_not(server, writer):
    until(lambda: b"run2" in asked(server, "/").content)
    before = state(server)["version"]
    writer.event("odd")
    time.sleep(0.1)
    assert state(server)["version"] == before
    writer.row("accuracy", "b", [0.5, 1.0])
    until(lambda: state(server)["version"] > before)
    page = asked(server, "/report").content.decode()
    assert f'data-version="{state(server)["version"]}">run3<' in page


def test_a_page_is_up_to_date_when_it_is_asked_for(root, writer):
    with serving(root) as server:
        server.site._pause = 60.0  # the background thread draws once
        assert b"run2" in asked(server, "/").content
        writer.row("accuracy", "b", [0.5, 1.0])
        assert b"run3" in asked(server, "/").content


def test_a_directory_that_does_not_exist_yet(tmp_path, status):
    root = tmp_path / "later"
    with serving(root) as server:
        assert asked(server, "/").status == 200
        assert state(server)["where"] == str(root)
        assert sum(state(server)["counts"].values()) == 0
        writer = RunWriter(root / "run", {"key": "k", "tasks": ["a"]})
        writer.row("accuracy", "a", [1.0])
        writer.status("learning", **status)
        assert b"run2" in asked(server, "/").content
        assert state(server)["counts"]["running"] == 1


def test_head_is_get_without_content(server):
    for path in ("/", "/live.js"):
        head, get = asked(server, path, "HEAD"), asked(server, path)
        assert (head.status, head.content) == (200, b"")
        assert head.getheader("Content-Length") == str(len(get.content))


def test_a_slow_report_does_not_delay_the_state(root):
    go = threading.Event()

    def slow(runs):
        if runs:
            go.wait(30)
        return drawn(runs)

    with serving(root, slow) as server:
        assert state(server)["counts"]["running"] == 1
        assert b'">' in asked(server, "/").content, "an empty page for now"
        before = state(server)["version"]
        go.set()
        until(lambda: state(server)["version"] > before)
        assert b"run2" in asked(server, "/").content


def test_a_report_that_cannot_be_drawn_is_one_line(root):
    def fails(runs):
        return drawn(runs) if not runs else 1 / 0

    with serving(root, fails) as server:
        until(lambda: state(server)["problem"])
        assert (
            state(server)["problem"]
            == "the report could not be drawn: ZeroDivisionError: division by zero"
        )
        assert asked(server, "/").status == 200


# ---- refusals ----


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "localhost",
        "127.0.0.1:1",
        "[::1]:{port}",
        "evil.example:{port}",
        "",
    ],
)
def test_another_host_is_refused(server, host):
    for path in ("/", "/state", "/nowhere"):
        refused = asked(server, path, Host=host.format(port=server.port))
        assert refused.status == 421
        assert b"run" not in refused.content


def test_only_one_of_our_own_hosts_is_answered(server):
    port = server.port
    assert asked(server, Host=f"localhost:{port}").status == 200
    assert asked(server, Host=f"127.0.0.1:{port}").status == 200
    two = sent(server, f"GET /state HTTP/1.1\r\nHost: localhost:{port}\r\nHost: evil\r\n\r\n")
    assert two.startswith("HTTP/1.1 421")
    assert sent(server, "GET /state HTTP/1.0\r\n\r\n").startswith("HTTP/1.1 421")
    absolute = sent(server, f"GET http://evil/ HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n")
    assert absolute.startswith("HTTP/1.1 404")


@pytest.mark.parametrize(
    "path",
    [
        "/../",
        "/../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/%2e%2e/run/config.json",
        "/run/config.json",
        "/dreams/../run.png",
        "/dreams/run.png",
        "/dreams/0123456789abcdef.png",
        "/state/",
        "/live.js/..",
        "/%00",
        "/app.py",
    ],
)
def test_any_other_path_is_not_found(server, path):
    answer = asked(server, path)
    assert answer.status == 404
    assert answer.content == b"Not Found\n"


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "ODD"]
)
def test_any_other_method_is_refused(server, root, method):
    before = files_in(root)
    answer = asked(server, "/state", method)
    assert (answer.status, answer.getheader("Allow")) == (405, "GET, HEAD")
    assert files_in(root) == before


@pytest.mark.parametrize("path", ["/", "/state", "/live.js", "/favicon.ico", "/nowhere"])
def test_every_answer_has_the_headers(server, path):
    for answer in (
        asked(server, path),
        asked(server, path, Host="evil"),
        asked(server, path, "POST"),
    ):
        assert {name: answer.getheader(name) for name in HEADERS} == HEADERS
        policy = dict(
            part.split(" ", 1) for part in answer.getheader("Content-Security-Policy").split("; ")
        )
        assert policy["default-src"] == "'none'"
        assert policy["frame-ancestors"] == "'none'"
        assert "unsafe" not in str(policy)
        assert answer.getheader("Server") == "dgdmn"


@pytest.mark.parametrize(
    "text",
    [
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET /state HTTP/9.9\r\n\r\n",
        "GET /state HTTP/1.1\r\nHost\r\n\r\n",
        "GET /" + "a" * 70_000 + " HTTP/1.1\r\n\r\n",
        "GET /state HTTP/1.1\r\n" + "X: y\r\n" * 200 + "\r\n",
        "\x00\x01\x02",
        "<script>alert(1)</script>\r\n\r\n",
    ],
)
def test_noise_is_refused_and_the_server_lives(server, text):
    assert "<script>" not in sent(server, text)
    assert asked(server).status == 200


def test_it_listens_on_loopback_only(server):
    assert server.server_address[0] == "127.0.0.1"


def test_watching_changes_nothing(server, root):
    before = files_in(root)
    for path in ("/", "/report", "/state", "/live.js", state(server)["running"][0]["dreams"]):
        asked(server, path)
    assert files_in(root) == before


def test_directories_may_be_broken_or_go_away(server, root):
    (root / "broken").mkdir()
    (root / "broken" / "config.json").write_text("{")
    RunWriter(root / "<u>", {"key": "u", "tasks": ["<u>"]})
    now = state(server)
    assert [one["name"] for one in now["broken"] + now["stopped"]] == ["broken", "<u>"]
    shutil.rmtree(root / "run")
    assert state(server)["counts"]["running"] == 0
    shutil.rmtree(root)
    assert asked(server, "/state").status == 200


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 torn", b"noise" * 99])
def test_damaged_dreams_are_not_found(server, writer, damage):
    address = state(server)["running"][0]["dreams"]
    (writer.directory / "artifacts" / "dreams-001.npz").write_bytes(damage)
    assert asked(server, address).status == 404


# ---- the verb ----


def test_the_verb_prints_its_address_and_ends_with_ctrl_c(root):
    with subprocess.Popen(
        [sys.executable, "-m", "dgdmn.cli", "watch", str(root), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test runner may ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        address = process.stdout.readline().split()[2]
        with closing(http.client.HTTPConnection(address.split("/")[2])) as connection:
            connection.request("GET", "/state")
            assert connection.getresponse().status == 200
        process.send_signal(signal.SIGINT)
        try:
            rest, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, rest, errors) == (0, "stopped watching; the runs continue\n", "")


def test_a_port_in_use_is_one_line(root):
    with (
        serving(root) as server,
        pytest.raises(DgdmnError, match=f"port {server.port}: .*in use; choose"),
    ):
        Server([root], server.port, drawn)
    with pytest.raises(UsageError, match="port is 70000"):
        Server([root], 70_000, drawn)


def test_watching_needs_no_torch():
    code = "import sys, dgdmn.service.app; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
