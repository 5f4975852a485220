"""The server over real sockets: what it answers, what it refuses, and that it changes nothing."""

import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager

import numpy as np
import pytest
from PIL import Image

from dgdmn.cli import watch as verb
from dgdmn.errors import DgdmnError, UsageError
from dgdmn.records import RunWriter, locked
from dgdmn.report.mosaic import dreams_png, tiled
from dgdmn.report.server import Server

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def drawn(runs):
    """A page that says which rows it was drawn from: quick, and its content is known."""
    rows = [path.name + str((path / "accuracy.csv").read_text().count("\n")) for path in runs]
    return f'<header></header><main id="report">{" ".join(rows)}</main>'


@contextmanager
def serving(root, draw=drawn):
    with Server([root], 0, draw, fresh=0.0, pause=0.0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def root(tmp_path):
    """One run that has a row and dreams."""
    writer = RunWriter(tmp_path / "run", {"tasks": ["a", "b"]})
    writer.event("task_began", step=1, task="a", samples=1)
    writer.row("accuracy", "a", [1.0, 0.0])
    writer.artefact("dreams-001", x=np.arange(48, dtype=np.uint8).reshape(3, 4, 4), y=np.array([2, 0, 1]))
    return tmp_path


@pytest.fixture
def server(root):
    with serving(root) as server:
        yield server


def asked(server, path="/state", method="GET", **headers):
    with closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)) as connection:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        answer.content = answer.read()
        return answer


def state(server):
    return json.loads(asked(server).content)


def until(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def files_in(root):
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(root.rglob("*"))}


# ---- answers ----


def test_the_routes(server):
    kinds = {
        path: asked(server, path).getheader("Content-Type") for path in ("/", "/report", "/state", "/live.js")
    }
    assert kinds == {
        "/": "text/html; charset=utf-8",
        "/report": "text/html; charset=utf-8",
        "/state": "application/json",
        "/live.js": "text/javascript; charset=utf-8",
    }
    assert b"run2</main>" in asked(server, "/?any=thing").content
    assert asked(server, "/favicon.ico").status == 204


def test_the_page_is_the_report(root):
    with Server([root], 0) as server:
        text = server.site.page().content.decode()
    assert f'<main id="report" data-version="{server.site.page().tag.strip(chr(34))}"' in text
    assert '<div id="live">' in text
    assert "/live.js" in text


def test_the_state_follows_the_run(server, root):
    assert state(server)["counts"] == {"running": 0, "stopped": 1, "done": 0, "broken": 0}
    assert state(server)["stopped"][0]["command"] == f"dgdmn resume {root / 'run'}"
    with locked(root / "run"):
        (running,) = state(server)["running"]
        assert (running["name"], running["doing"], running["steps"]) == ("run", "learning a", 2)
        picture = asked(server, running["dreams"])
        assert picture.getheader("Content-Type") == "image/png"
        assert picture.content.startswith(b"\x89PNG")
    assert state(server)["counts"]["running"] == 0


def test_a_new_row_makes_a_new_version_and_an_epoch_does_not(server, root):
    until(lambda: b"run2" in asked(server, "/").content)
    before = state(server)["version"]
    with (root / "run" / "events.jsonl").open("a") as file:
        file.write("{}\n")
    assert state(server)["version"] == before
    with (root / "run" / "accuracy.csv").open("a") as file:
        file.write("2,b,0.5,1.0\n")
    until(lambda: state(server)["version"] > before)
    page = asked(server, "/report").content.decode()
    assert f'data-version="{state(server)["version"]}">run3<' in page


def test_nothing_new_is_304(server):
    until(lambda: b"run2" in asked(server, "/").content)
    for path in ("/state", "/report"):
        tag = asked(server, path).getheader("ETag")
        same = asked(server, path, If_None_Match=tag)
        assert (same.status, same.content) == (304, b"")
        assert asked(server, path, If_None_Match='"other"').status == 200


def test_head_is_get_without_content(server):
    for path in ("/", "/state", "/live.js"):
        head, get = asked(server, path, "HEAD"), asked(server, path)
        assert (head.status, head.content) == (200, b"")
        assert head.getheader("Content-Length") == str(len(get.content))


def test_a_slow_report_does_not_hold_up_the_state(root):
    go = threading.Event()

    def slow(runs):
        if runs:
            go.wait(30)
        return drawn(runs)

    with serving(root, slow) as server:
        assert state(server)["counts"]["stopped"] == 1
        assert b'">' in asked(server, "/").content, "an empty page, meanwhile"
        before = state(server)["version"]
        go.set()
        until(lambda: state(server)["version"] > before)
        assert b"run2" in asked(server, "/").content


def test_a_report_that_cannot_be_drawn_is_a_line(root):
    def fails(runs):
        return drawn(runs) if not runs else 1 / 0

    with serving(root, fails) as server:
        until(lambda: state(server)["problem"])
        assert (
            state(server)["problem"] == "the report could not be drawn: ZeroDivisionError: division by zero"
        )
        assert asked(server, "/").status == 200


# ---- refusals ----


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1", "localhost", "127.0.0.1:1", "[::1]:{port}", "evil.example:{port}", ""],
)
def test_another_host_is_refused(server, host):
    for path in ("/", "/state", "/nowhere"):
        refused = asked(server, path, Host=host.format(port=server.server_port))
        assert refused.status == 421
        assert b"run" not in refused.content


def test_our_own_names_are_answered_and_one_of_them_only(server):
    port = server.server_port
    assert asked(server, Host=f"localhost:{port}").status == 200
    assert asked(server, Host=f"127.0.0.1:{port}").status == 200
    assert spoken(server, f"GET /state HTTP/1.1\r\nHost: localhost:{port}\r\nHost: evil\r\n\r\n").startswith(
        "HTTP/1.1 421"
    )
    assert spoken(server, "GET /state HTTP/1.0\r\n\r\n").startswith("HTTP/1.1 421")
    assert spoken(server, f"GET http://evil/ HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n").startswith(
        "HTTP/1.1 404"
    )


def spoken(server, text):
    """What comes back for raw bytes, until the server hangs up."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection:
        connection.sendall(text.encode())
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")


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
        "/dreams/..%2f..%2frun%2fartefacts%2fdreams-001.png",
        "/dreams/0123456789abcdef.png",
        "/state/",
        "/live.js/..",
        "/%00",
        "/server.py",
    ],
)
def test_any_other_path_is_not_found(server, path):
    answer = asked(server, path)
    assert answer.status == 404
    assert answer.content == b"Not Found\n"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "ODD"])
def test_any_other_method_is_refused(server, root, method):
    before = files_in(root)
    answer = asked(server, "/state", method)
    assert (answer.status, answer.getheader("Allow")) == (405, "GET, HEAD")
    assert files_in(root) == before


@pytest.mark.parametrize("path", ["/", "/state", "/live.js", "/favicon.ico", "/nowhere"])
def test_every_answer_has_the_headers(server, path):
    for answer in (asked(server, path), asked(server, path, Host="evil"), asked(server, path, "POST")):
        assert {name: answer.getheader(name) for name in HEADERS} == HEADERS
        policy = dict(part.split(" ", 1) for part in answer.getheader("Content-Security-Policy").split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["frame-ancestors"] == "'none'"
        assert "unsafe" not in str(policy)
        assert answer.getheader("Server") == "dgdmn"


@pytest.mark.parametrize(
    "text",
    ["\r\n\r\n", "nonsense\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "X" * 70000],
    ids=["empty", "nonsense", "0.9", "9.9", "long"],
)
def test_noise_is_refused_and_the_server_lives(server, text):
    assert "run2" not in spoken(server, text)
    assert asked(server).status == 200


def test_it_listens_on_loopback_only(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"


def test_watching_changes_nothing(server, root):
    before = files_in(root)
    for path in ("/", "/report", "/state", "/live.js"):
        asked(server, path)
    assert files_in(root) == before


# ---- what may lie in a directory ----


def test_names_are_data(root):
    odd = root / "<script>alert(1)<script>"
    RunWriter(odd, {"tasks": ["</script><script>alert(2)</script>"]}).event("task_began", step=1, task="<b>")
    with Server([root], 0, fresh=0.0) as server, locked(odd):
        (running,) = json.loads(server.site.state().content)["running"]
        until(lambda: b"alert" in server.site.page().content)
        text = server.site.page().content.decode()
    assert (running["name"], running["doing"]) == (odd.name, "learning <b>")
    assert "<script>alert" not in text


def test_directories_may_be_broken_or_go_away(server, root):
    (root / "empty").mkdir()
    (root / "torn").mkdir()
    (root / "torn" / "config.json").write_text('{"tasks": [')
    until(lambda: state(server)["counts"]["broken"] == 2)
    assert {run["name"] for run in state(server)["broken"]} == {"empty", "torn"}
    shutil.rmtree(root / "run")
    assert state(server)["counts"] == {"running": 0, "stopped": 0, "done": 0, "broken": 2}
    shutil.rmtree(root)
    assert sum(state(server)["counts"].values()) == 0


def test_many_runs_are_counted_and_few_told(root):
    for number in range(60):
        (root / f"empty-{number}").mkdir()
    with Server([root], 0, drawn) as server:
        told = json.loads(server.site.state().content)
    assert told["counts"]["broken"] == 60
    assert len(told["broken"]) == 50


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 torn", b"noise" * 99], ids=["empty", "torn", "noise"])
def test_damaged_dreams_are_not_found(server, root, damage):
    with locked(root / "run"):
        address = state(server)["running"][0]["dreams"]
        (root / "run" / "artefacts" / "dreams-001.npz").write_bytes(damage)
        assert asked(server, address).status == 404


# ---- dreams as a picture ----


def test_dreams_are_ordered_by_label_and_unchanged(root):
    path = root / "run" / "artefacts" / "dreams-001.npz"
    (root / "dreams.png").write_bytes(dreams_png(path))
    pixels = np.asarray(Image.open(root / "dreams.png"))
    images = np.arange(48, dtype=np.uint8).reshape(3, 4, 4)
    assert pixels.shape == (4, 14)
    for place, index in enumerate([1, 2, 0]):
        np.testing.assert_array_equal(pixels[:, place * 5 : place * 5 + 4], images[index])


def test_tiles_wrap_and_may_have_colours():
    grid = tiled(np.full((20, 2, 3, 3), 7, np.uint8))
    assert grid.shape == (5, 16 * 4 - 1, 3)
    assert (grid[3:, 4 * 4 :] == 128).all()
    assert (grid[:2, :3] == 7).all()


@pytest.mark.parametrize(
    "arrays",
    [
        {"x": np.zeros((3, 4, 4)), "y": np.zeros(3)},
        {"x": np.zeros((3, 16), np.uint8), "y": np.zeros(3)},
        {"x": np.zeros((0, 4, 4), np.uint8), "y": np.zeros(0)},
        {"x": np.zeros((3, 4, 4), np.uint8), "y": np.zeros(2)},
        {"x": np.zeros((3, 4, 4, 2), np.uint8), "y": np.zeros(3)},
        {"x": np.zeros((3, 4, 4), np.uint8)},
        {"x": np.zeros((1 << 14, 80, 80), np.uint8), "y": np.zeros(1 << 14)},
    ],
    ids=["floats", "flat", "none", "labels missing", "two channels", "no labels", "too large"],
)
def test_what_is_no_picture_is_refused(tmp_path, arrays):
    np.savez_compressed(tmp_path / "dreams-1.npz", **arrays)
    with pytest.raises(DgdmnError, match=r"dreams-1\.npz"):
        dreams_png(tmp_path / "dreams-1.npz")


# ---- the verb ----


@pytest.fixture
def command(root):
    code = "import sys; from dgdmn.cli import watch; sys.exit(watch.main(sys.argv[1:]))"
    return [sys.executable, "-c", code, str(root), "--port", "0"]


def test_the_verb_prints_its_address_and_ends_with_ctrl_c(command):
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a test runner may ignore Ctrl-C
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
    assert (process.returncode, rest, errors) == (0, "stopped watching; the runs go on\n", "")


def test_a_port_in_use_is_one_line(root):
    with (
        serving(root) as server,
        pytest.raises(DgdmnError, match=f"port {server.server_port}: .*in use; choose"),
    ):
        Server([root], server.server_port, drawn)


@pytest.mark.parametrize(
    "words", [["{root}", "--port", "70000"], ["{root}/none"], ["{root}/run/config.json"], []]
)
def test_a_wrong_argument_is_one_line(root, words):
    with pytest.raises(UsageError) as error:
        verb.main([word.format(root=root) for word in words])
    assert "\n" not in str(error.value)


def test_watching_needs_no_torch():
    code = "import sys, dgdmn.report.server; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
