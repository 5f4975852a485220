"""Small fake data files and a local web server. No test here reaches the network."""

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

from dgdmn.streams import fetch

REAL = os.environ.get("DGDMN_DATA")


@pytest.fixture(autouse=True)
def isolate(tmp_path, monkeypatch):
    """Start with an empty cache, no DGDMN_DATA, no public address and no npm client."""
    monkeypatch.setenv("DGDMN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DGDMN_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    empty = tmp_path / ".bin"  # hidden, so that it is no class folder
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    for dataset in fetch.URLS:
        monkeypatch.setitem(fetch.URLS, dataset, ())


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
    return (
        b"\0\0\x08"
        + bytes([array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


@pytest.fixture
def mnist_files(monkeypatch):
    """Forty training and twenty test images as four gzipped idx files, with their hashes."""
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(0, 256, (40, 28, 28), dtype=np.uint8),
        np.arange(40, dtype=np.uint8) % 10,
        rng.integers(0, 256, (20, 28, 28), dtype=np.uint8),
        np.arange(20, dtype=np.uint8) % 10,
    ]
    files = {}
    for stem, array in zip(fetch.MNIST, arrays, strict=True):
        raw = idx(array)
        files[f"{stem}.gz"] = gzip.compress(raw, mtime=0)
        sha256 = hashlib.sha256(files[f"{stem}.gz"]).hexdigest()
        monkeypatch.setitem(fetch.HASHES, f"{stem}.gz", sha256)
        monkeypatch.setitem(fetch.HASHES, stem, f"md5:{hashlib.md5(raw).hexdigest()}")
    return files


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Write files into a dataset's folder in DGDMN_DATA or in the cache."""

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
    """The fake MNIST in DGDMN_DATA."""
    place("mnist", mnist_files)
    return mnist_files


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.fixture
def official(monkeypatch):
    """An official file: twelve rows after an 80-byte header, of which five are read."""
    monkeypatch.setattr(fetch, "QUICKDRAW_ROWS", 5)
    drawings = np.random.default_rng(1).integers(0, 256, (12, 784), dtype=np.uint8)
    text = b"{'descr': '|u1', 'fortran_order': False, 'shape': (12, 784), }"
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", 70) + text.ljust(69) + b"\n"
    content = header + drawings.tobytes()
    for name in fetch.OFFICIAL_ROWS:
        monkeypatch.setitem(fetch.OFFICIAL_ROWS, name, 12)
        md5 = hashlib.md5(content).hexdigest()
        monkeypatch.setitem(fetch.HASHES, f"official/{name}", f"md5:{md5}")
    return content, drawings


@pytest.fixture
def partial(monkeypatch):
    """Partial files: three drawings of each shape, with their hashes."""
    files = {}
    for number, shape in enumerate(fetch.SHAPES):
        files[f"{shape}.npy"] = npy(np.full((3, 784), number, dtype=np.uint8))
        sha256 = hashlib.sha256(files[f"{shape}.npy"]).hexdigest()
        monkeypatch.setitem(fetch.HASHES, f"{shape}.npy", sha256)
    return files


class Site:
    """What the local server serves, and which paths were requested."""

    def __init__(self, address):
        self.address = address
        self.pages = {}
        self.asked = []
        self.ranges = True
        self.cut = None
        self.short = False


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
                self.send_header("Content-Range", f"bytes 0-{end}/{len(content)}")
                content = content[: end // 2 if web.short else end + 1]
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            # The client closes the connection when it has enough.
            with contextlib.suppress(ConnectionError):
                self.wfile.write(content if web.cut is None else content[: web.cut])

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web = Site(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    yield web
    server.shutdown()
    thread.join()
    server.server_close()
