"""Tiny fake data files, a loopback web server, and a wall: nothing here reaches beyond 127.0.0.1."""

import contextlib
import gzip
import hashlib
import io
import os
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from dgdmn.streams import known

REAL = os.environ.get("DGDMN_DATA")


@pytest.fixture(autouse=True)
def wall(tmp_path, monkeypatch):
    """An empty cache, no DGDMN_DATA, no public address and no npm, unless a test sets them up."""
    monkeypatch.setenv("DGDMN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DGDMN_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    empty = tmp_path / "bin"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    for dataset in known.URLS:
        monkeypatch.setitem(known.URLS, dataset, ())


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def real(monkeypatch):
    if not REAL or not Path(REAL).is_dir():
        pytest.skip("DGDMN_DATA does not name a directory with the real data files")
    monkeypatch.setenv("DGDMN_DATA", REAL)
    return Path(REAL)


def idx(array):
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def mnist_files(monkeypatch):
    """Forty training and twenty test images as the four gzipped idx files, with the sums to match."""
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(0, 256, (40, 28, 28), dtype=np.uint8),
        np.arange(40, dtype=np.uint8) % 10,
        rng.integers(0, 256, (20, 28, 28), dtype=np.uint8),
        np.arange(20, dtype=np.uint8) % 10,
    ]
    files = {}
    for stem, array in zip(known.MNIST, arrays, strict=True):
        raw = idx(array)
        files[f"{stem}.gz"] = gzip.compress(raw, mtime=0)
        monkeypatch.setitem(known.SHA256, f"{stem}.gz", hashlib.sha256(files[f"{stem}.gz"]).hexdigest())
        monkeypatch.setitem(known.RAW_MD5, stem, hashlib.md5(raw).hexdigest())
    return files


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Write files below a dataset's folder in DGDMN_DATA (or another place) and name it."""

    def write(dataset, files, source="DGDMN_DATA"):
        root = tmp_path / ("cache" if source == "cache" else "data")
        if source != "cache":
            monkeypatch.setenv("DGDMN_DATA", str(root))
        (root / dataset).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (root / dataset / name).write_bytes(content)
        return root / dataset

    return write


@pytest.fixture
def tiny_mnist(mnist_files, place):
    """The fake MNIST, placed where DGDMN_DATA points."""
    place("mnist", mnist_files)
    return mnist_files


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.fixture
def official(monkeypatch):
    """Official-looking drawings: twelve rows after an 80-byte header, of which the first five are read."""
    monkeypatch.setattr(known, "QUICKDRAW_ROWS", 5)
    drawings = np.random.default_rng(1).integers(0, 256, (12, 784), dtype=np.uint8)
    text = b"{'descr': '|u1', 'fortran_order': False, 'shape': (12, 784), }"
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", 70) + text.ljust(69) + b"\n"
    content = header + drawings.tobytes()
    for shape in known.SHAPES:
        monkeypatch.setitem(known.OFFICIAL_QUICKDRAW, f"{shape}.npy", (12, hashlib.md5(content).hexdigest()))
    return content, drawings


@pytest.fixture
def partial(monkeypatch):
    """Three drawings of each shape, known by their sums."""
    files = {}
    for number, shape in enumerate(known.SHAPES):
        files[f"{shape}.npy"] = npy(np.full((3, 784), number, dtype=np.uint8))
        sha256 = hashlib.sha256(files[f"{shape}.npy"]).hexdigest()
        monkeypatch.setitem(known.SHA256, f"{shape}.npy", sha256)
    return files


class Site:
    """What the loopback server serves, and what it was asked."""

    def __init__(self, address):
        self.address = address
        self.pages = {}
        self.asked = []
        self.ranges = True
        self.cut = None
        self.short = False
        self.start = 0


@pytest.fixture
def site():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            web.asked.append(self.path)
            content = web.pages.get(self.path)
            if content is None:
                self.send_error(404)
                return
            asked = self.headers.get("Range")
            if asked and web.ranges:
                end = int(asked.partition("-")[2])
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {web.start}-{end}/{len(content)}")
                content = content[: end // 2 if web.short else end + 1]
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            # A reader that has enough hangs up: that is what one of the tests is about.
            with contextlib.suppress(ConnectionError):
                self.wfile.write(content if web.cut is None else content[: web.cut])

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web = Site(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield web
    server.shutdown()
    thread.join()
    server.server_close()
