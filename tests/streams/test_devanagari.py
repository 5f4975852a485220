"""Hindi: the Devanagari archive and the npz file, intact and damaged."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from dgdmn.core.errors import DataError
from dgdmn.streams import fetch, load
from dgdmn.streams.images import read_consonants


def png(value, size=32):
    file = io.BytesIO()
    Image.fromarray(np.full((size, size), value, dtype=np.uint8)).save(file, "png")
    return file.getvalue()


@pytest.fixture
def small_archive(monkeypatch):
    """Three training and two test images per consonant, out of order, among other files."""
    monkeypatch.setattr(fetch, "IMAGES_PER_CONSONANT", {"Train": 3, "Test": 2})
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for number, consonant in enumerate(fetch.CONSONANTS):
            for split, ids in (("Train", (100, 9, 20)), ("Test", (8, 7))):
                for i in ids:
                    archive.writestr(f"Root/{split}/{consonant}/{i}.png", png(number + i))
            archive.writestr(f"__MACOSX/Root/Train/{consonant}/._9.png", b"no image")
        archive.writestr("Root/Train/digit_0/1.png", b"not read")
    return content.getvalue()


def test_the_archive_is_read_in_numeric_order(small_archive, place):
    place("devanagari", {fetch.DHCD_ZIP: small_archive})
    train, test = read_consonants()["character_2_kha"]
    assert train.shape == (3, 32, 32)
    assert train[:, 0, 0].tolist() == [10, 21, 101]
    assert test[:, 0, 0].tolist() == [8, 9]
    assert load("hindi")[1].train.y.tolist() == [1, 1, 1]


def test_the_archive_is_fetched_whole_or_not_at_all(small_archive, site, monkeypatch, cache):
    monkeypatch.setitem(fetch.URLS, "devanagari", (site.address + "/{name}",))
    site.pages[f"/{fetch.DHCD_ZIP}"] = small_archive[:-40]
    with pytest.raises(DataError, match="not a whole zip archive"):
        fetch.fetch("hindi")
    assert not list(cache.rglob("*.zip*"))
    site.pages[f"/{fetch.DHCD_ZIP}"] = small_archive
    assert fetch.fetch("hindi") == [
        fetch.LocalFile(
            f"devanagari/{fetch.DHCD_ZIP}", cache / "devanagari" / fetch.DHCD_ZIP, "cache"
        )
    ]


def test_an_archive_with_too_few_images_is_refused(small_archive, place, monkeypatch):
    monkeypatch.setattr(fetch, "IMAGES_PER_CONSONANT", {"Train": 4, "Test": 2})
    place("devanagari", {fetch.DHCD_ZIP: small_archive})
    with pytest.raises(DataError, match=r"has 3 images in Train/character_1_ka, expected 4"):
        read_consonants()["character_1_ka"]


def test_a_damaged_image_in_the_archive_is_found(small_archive, place):
    at = small_archive.index(b"IDAT") + 8
    damaged = small_archive[:at] + bytes([small_archive[at] ^ 255]) + small_archive[at + 1 :]
    place("devanagari", {fetch.DHCD_ZIP: damaged})
    assert not fetch.verify("devanagari")[0].ok
    with pytest.raises(DataError, match="is damaged"):
        read_consonants()["character_1_ka"]


@pytest.mark.slow
def test_archive_and_npz_hold_the_same_images(real, monkeypatch, tmp_path):
    zipped = real / "devanagari" / "DHCD_first8_consonants_official_layout.zip"
    if not zipped.is_file():
        pytest.skip("the archive in the official layout is not in DGDMN_DATA")
    from_npz = {name: read_consonants()[name] for name in fetch.CONSONANTS[::7]}
    (tmp_path / "official" / "devanagari").mkdir(parents=True)
    (tmp_path / "official" / "devanagari" / fetch.DHCD_ZIP).symlink_to(zipped)
    monkeypatch.setenv("DGDMN_DATA", str(tmp_path / "official"))
    for name, (train, test) in from_npz.items():
        zip_train, zip_test = read_consonants()[name]
        np.testing.assert_array_equal(zip_train, train)
        np.testing.assert_array_equal(zip_test, test)
        assert (len(train), len(test)) == (1700, 300)


def test_hindi_has_eight_consonants():
    stream = load("hindi")
    assert stream.task_names == ("ka", "kha", "ga", "gha", "kna", "cha", "chha", "ja")
    assert (stream.classes, stream.shape) == (tuple(range(8)), (32, 32))


@pytest.mark.usefixtures("real")
def test_real_hindi_is_counted():
    tasks = list(load("hindi"))
    assert {(len(t.train), len(t.test)) for t in tasks} == {(1700, 300)}
    assert tasks[7].train.y[0] == 7
    assert tasks[0].train.x.max() == 1
    assert (tasks[0].train.x[:, :2] == 0).all()  # the two black border rows of every image
