"""Known files as arrays, whole and damaged; the Devanagari archive in both forms."""

import gzip
import hashlib
import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from dgdmn.errors import DataError
from dgdmn.streams import known, load, pixels, sources


@pytest.mark.usefixtures("tiny_mnist")
def test_mnist_is_unpacked_once_and_read_only(monkeypatch):
    first = pixels.mnist()
    monkeypatch.setattr(gzip, "decompress", lambda *_: pytest.fail("unpacked twice"))
    assert pixels.mnist() is first
    with pytest.raises(ValueError, match="read-only"):
        first.train_x[0, 0, 0] = 1


def test_idx_by_hand(tmp_path):
    path = tmp_path / "two"
    path.write_bytes(b"\0\0\x08\x02" + b"\0\0\0\x02" + b"\0\0\0\x03" + bytes([1, 2, 3, 4, 5, 6]))
    assert pixels.read_idx(path).tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not an idx file"),
        (b"\0\0\x0d\x01\0\0\0\x01\0\0\0\0", "not an idx file"),
        (b"\0\0\x08\x01\0\0\0\x05abc", "its header promises 13"),
        (b"\0\0\x08\x03\0\0", "not an idx file"),
    ],
)
def test_a_damaged_idx_file_is_named(tmp_path, content, reason):
    path = tmp_path / "damaged"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"damaged .*{reason}"):
        pixels.read_idx(path)


@pytest.mark.parametrize(
    "content",
    [b"no gzip", gzip.compress(b"\0\0\x08\x01\0\0\0\x01a", mtime=0)[:-9]],
    ids=["no gzip", "cut short"],  # a gzip holds its time: as a test's name it would differ between workers
)
def test_a_damaged_gzip_is_named(tmp_path, content):
    path = tmp_path / "damaged.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"damaged\.gz cannot be unpacked"):
        pixels.read_idx(path)


def test_labels_that_do_not_fit_the_images_are_refused(mnist_files, place, monkeypatch):
    names = list(mnist_files)
    mnist_files[names[1]] = mnist_files[names[3]]
    monkeypatch.setitem(known.SHA256, names[1], known.SHA256[names[3]])
    place("mnist", mnist_files)
    with pytest.raises(DataError, match=r"train-labels.* \(20,\) labels for \(40, 28, 28\)"):
        pixels.mnist()


def png(value, size=32):
    file = io.BytesIO()
    Image.fromarray(np.full((size, size), value, dtype=np.uint8)).save(file, "png")
    return file.getvalue()


@pytest.fixture
def small_archive(monkeypatch):
    """Three training and two test images of each consonant, stored out of order, with strangers between."""
    monkeypatch.setattr(known, "HINDI_TRAIN", 3)
    monkeypatch.setattr(known, "HINDI_TEST", 2)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for number, consonant in enumerate(known.CONSONANTS):
            for split, ids in (("Train", (100, 9, 20)), ("Test", (8, 7))):
                for i in ids:
                    archive.writestr(f"Root/{split}/{consonant}/{i}.png", png(number + i))
            archive.writestr(f"__MACOSX/Root/Train/{consonant}/._9.png", b"no image")
        archive.writestr("Root/Train/digit_0/1.png", b"never read")
    return content.getvalue()


def test_the_archive_is_read_in_the_order_of_file_numbers(small_archive, place):
    place("devanagari", {known.DHCD_ZIP: small_archive})
    train, test = pixels.devanagari("character_2_kha")
    assert train.shape == (3, 32, 32)
    assert train[:, 0, 0].tolist() == [10, 21, 101]
    assert test[:, 0, 0].tolist() == [8, 9]
    assert load("hindi")[1].train.y.tolist() == [1, 1, 1]


def test_the_archive_is_fetched_whole_or_not_at_all(small_archive, site, monkeypatch, cache):
    monkeypatch.setitem(known.URLS, "devanagari", (site.address + "/{name}",))
    site.pages[f"/{known.DHCD_ZIP}"] = small_archive[:-40]
    with pytest.raises(DataError, match="not a whole zip archive"):
        sources.fetch("hindi")
    assert not list(cache.rglob("*.zip*"))
    site.pages[f"/{known.DHCD_ZIP}"] = small_archive
    assert sources.fetch("hindi") == [
        (f"devanagari/{known.DHCD_ZIP}", cache / "devanagari" / known.DHCD_ZIP, "cache")
    ]


def test_an_archive_with_too_few_images_is_refused(small_archive, place, monkeypatch):
    monkeypatch.setattr(known, "HINDI_TRAIN", 4)
    place("devanagari", {known.DHCD_ZIP: small_archive})
    with pytest.raises(DataError, match=r"has 3 images in Train/character_1_ka, expected 4"):
        pixels.devanagari("character_1_ka")


def test_an_archive_damaged_inside_is_found(small_archive, place):
    at = small_archive.index(b"IDAT") + 8
    damaged = small_archive[:at] + bytes([small_archive[at] ^ 255]) + small_archive[at + 1 :]
    place("devanagari", {known.DHCD_ZIP: damaged})
    assert not sources.verify("devanagari")[0].ok
    with pytest.raises(DataError, match="is damaged"):
        pixels.devanagari("character_1_ka")


def test_an_npz_without_the_arrays_is_refused(place, monkeypatch):
    file = io.BytesIO()
    np.savez(file, images=np.zeros((1, 32, 32), np.uint8))
    monkeypatch.setitem(known.SHA256, "dhcd.npz", hashlib.sha256(file.getvalue()).hexdigest())
    place("devanagari", {"dhcd.npz": file.getvalue()})
    with pytest.raises(DataError, match="is not the Devanagari npz"):
        pixels.devanagari("character_1_ka")


def test_archive_and_npz_hold_the_same_images(real, monkeypatch, tmp_path):
    zipped = real / "devanagari" / "DHCD_first8_consonants_official_layout.zip"
    if not zipped.is_file():
        pytest.skip("the archive in the official layout is not in DGDMN_DATA")
    from_npz = {name: pixels.devanagari(name) for name in known.CONSONANTS[::7]}
    (tmp_path / "official" / "devanagari").mkdir(parents=True)
    (tmp_path / "official" / "devanagari" / known.DHCD_ZIP).symlink_to(zipped)
    monkeypatch.setenv("DGDMN_DATA", str(tmp_path / "official"))
    for name, (train, test) in from_npz.items():
        zip_train, zip_test = pixels.devanagari(name)
        np.testing.assert_array_equal(zip_train, train)
        np.testing.assert_array_equal(zip_test, test)
        assert (len(train), len(test)) == (1700, 300)
