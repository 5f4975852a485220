"""Arrays of a run: read within limits, damage becomes a note, t-SNE is repeatable."""

import io
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from dgdmn.core.errors import DgdmnError
from dgdmn.core.files import npz_bytes
from dgdmn.records import RunRecord, RunWriter
from dgdmn.report import artifacts
from dgdmn.report.artifacts import (
    dream_quality,
    dreams_png,
    embed,
    newest_dreams,
    read_dreams,
    read_latents,
    read_reconstructions,
    read_resilience,
)
from dgdmn.report.images import grid_png, picture, tile
from dgdmn.report.load import load_runs
from dgdmn.report.page import render

READERS = {
    "dreams-002": read_dreams,
    "reconstructions": read_reconstructions,
    "latents": read_latents,
    "resilience": read_resilience,
}


def test_everything_of_a_run(make):
    run = make("a")
    dreams, notes = read_dreams(run)
    assert ([one.step for one in dreams], notes) == ([2, 4], [])
    assert dreams[0].purity == pytest.approx(14 / 16), "labels are shifted by one"
    assert set(dreams[1].labels) == set("0123")
    assert read_reconstructions(run)[0][0].shape == (16, 8, 8)
    assert read_latents(run)[0][0].shape == (60, 4)
    found = read_resilience(run)[0]
    assert found.curves["noise"][1] == pytest.approx([0.9, 0.8, 0.7]), "the unclipped ones"
    assert [len(images) for images in found.images] == [8, 8]


def test_a_run_without_arrays_has_none_and_no_notes(make):
    run = make("a", algorithm="nn")
    for read in READERS.values():
        found, notes = read(run)
        assert not found
        assert notes == []


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("damage", ["no zip", "cut", "empty", "lacks", "objects", "pipe"])
def test_damage_is_a_note(make_run, name, damage):
    path = make_run("a")
    file = path / "artifacts" / f"{name}.npz"
    content = file.read_bytes()
    writer = RunWriter.resume(path, 4)
    if damage == "lacks":
        writer.artifact(name, nothing=np.zeros(1))
    elif damage == "objects":
        objects = io.BytesIO()
        np.savez(
            objects,
            x=np.array([{}], dtype=object),
            y=np.array([{}]),
            z=np.array([{}]),
            noise=np.array([{}]),
        )
        file.write_bytes(objects.getvalue())
    elif damage == "pipe":
        import os

        file.unlink()
        os.mkfifo(file)
    else:
        file.write_bytes({"no zip": b"no zip", "cut": content[:100], "empty": b""}[damage])
    (run,), _ = load_runs([path])
    found, notes = READERS[name](run)
    if (name, damage) == ("resilience", "lacks"):
        assert found.curves == {}
    elif (name, damage) != ("resilience", "objects"):
        assert len(notes) == 1
        assert notes[0].startswith(f"{name}.npz could not be used: ")


@pytest.mark.parametrize(
    ("name", "arrays"),
    [
        (
            "dreams-002",
            {"x": np.zeros((2, 4, 4), np.uint8), "task": np.zeros(3), "labels": [], "judged": []},
        ),
        (
            "dreams-002",
            {"x": np.zeros((2, 4, 4), np.uint8), "task": np.zeros(2), "labels": [1], "judged": []},
        ),
        (
            "reconstructions",
            {"x": np.zeros((2, 4, 4), np.uint8), "reconstructed": np.zeros((1, 4, 4), np.uint8)},
        ),
        ("latents", {"z": np.array([[np.nan]]), "y": [1]}),
        ("latents", {"z": np.array([[1e30]]), "y": [1]}),
        ("latents", {"z": np.zeros((2, 2)), "y": [1]}),
        ("latents", {"z": np.zeros(2), "y": [1, 2]}),
        ("resilience", {"noise": [0.1], "noise_accuracy_unclipped": [0.1, 0.2]}),
        ("resilience", {"occlusion": [np.inf], "occlusion_accuracy": [0.1]}),
    ],
)
def test_arrays_that_do_not_fit_are_a_note(make_run, name, arrays):
    path = make_run("a")
    RunWriter.resume(path, 4).artifact(name, **arrays)
    (run,), _ = load_runs([path])
    assert len(READERS[name](run)[1]) == 1


def test_samples_that_are_no_images(make_run):
    path = make_run("a")
    flat = np.zeros((4, 36), np.uint8)
    writer = RunWriter.resume(path, 4)
    writer.artifact(
        "dreams-002", x=flat, y=np.arange(4), task=np.arange(4), labels=[1, 2], judged=[1, 1]
    )
    (run,), _ = load_runs([path])
    dreams, notes = read_dreams(run)
    assert (len(dreams[0].x), dreams[0].purity, notes) == (0, 0.5, [])
    assert dreams_png(path / "artifacts" / "dreams-002.npz") is None


def test_a_bomb_is_not_unpacked(make_run, monkeypatch):
    path = make_run("a")
    with zipfile.ZipFile(path / "artifacts" / "latents.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("z.npy", bytes(artifacts.LIMIT + 1))
    (run,), _ = load_runs([path])
    assert "it unpacks to 64,000,001 bytes" in read_latents(run)[1][0]
    monkeypatch.setattr(artifacts, "LIMIT", 10)
    assert "at most 10 are read" in read_reconstructions(run)[1][0]


def npy(header):
    """An npy file with this header and eight bytes of data."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)


HEADER = b"{'descr': '<i8', 'fortran_order': False, 'shape': (%s), }\n"
HOSTILE = {
    "encrypted": (npy(HEADER % b"1,"), {"flag_bits": 1}),
    "unknown compression": (npy(HEADER % b"1,"), {"compress_type": 77}),
    "10^13 rows": (npy(HEADER % b"10000000000000,"), {}),
    "10^13 empty rows": (npy(HEADER % b"10000000000000, 0")[:-8], {}),
    "a negative size": (npy(HEADER % b"-1,"), {}),
    "unbalanced": (npy(b"{'descr': ((((((("), {}),
    "deep": (npy(b"(" * 9000), {}),
    "objects": (npy(HEADER.replace(b"<i8", b"|O") % b"1,"), {}),
    "no npy": (b"hello", {}),
    "another version": (b"\x93NUMPY\x07\x00", {}),
}


def hostile_npz(path, name):
    """An npz file whose only member is wrong in this way."""
    content, changed = HOSTILE[name]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", content)
    data = bytearray(path.read_bytes())
    places = {"flag_bits": (6, 8), "compress_type": (8, 10)}
    for field, value in changed.items():  # in the local header and in the directory
        for start, place in zip((0, data.rindex(b"PK\x01\x02")), places[field], strict=True):
            data[start + place : start + place + 2] = value.to_bytes(2, "little")
    path.write_bytes(data)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_artifact_is_a_note_in_its_section(make_run, name):
    path, _ = make_run("a"), make_run("b", seed=1)
    for artifact in ("dreams-002", "reconstructions", "latents", "resilience"):
        hostile_npz(path / "artifacts" / f"{artifact}.npz", name)
        with pytest.raises(DgdmnError, match=f"{artifact}.npz is damaged"):
            RunRecord.read(path).artifact(artifact)
    assert dreams_png(path / "artifacts" / "dreams-002.npz") is None
    runs, problems = load_runs([path.parent])
    assert (len(runs), problems) == (2, [])
    html = render(runs)
    for artifact in ("dreams-002", "reconstructions", "latents", "resilience"):
        assert f"{artifact}.npz could not be used: it is damaged" in html


def test_quality_of_dreams(make):
    run = make("a")
    quality = dream_quality(run, read_dreams(run)[0])
    assert list(quality) == [2, 4]
    assert all(0.9 < balance < 1 for _, balance in quality.values())


def test_the_same_latents_give_the_same_map(make):
    z, labels = read_latents(make("a"))[0]
    points = embed(z)
    artifacts._MAPS.clear()
    assert points.shape == (60, 2)
    assert len(labels) == 60
    np.testing.assert_array_equal(points, embed(z))


@pytest.mark.parametrize(
    "z", [np.zeros((3, 2)), np.zeros((20, 3)), np.arange(20.0)[:, None], np.ones((1, 1))]
)
def test_odd_latents_have_a_map(z):
    points = embed(z)
    assert points.shape == (len(z), 2)
    assert np.isfinite(points).all()


def test_many_latents_are_thinned(make, monkeypatch):
    monkeypatch.setattr(artifacts, "MAX_POINTS", 10)
    z, labels = read_latents(make("a"))[0]
    assert (z.shape, len(labels)) == ((10, 4), 10)


def test_many_small_dreams_do_not_fill_the_memory(make_run, tmp_path):
    path = make_run("a")
    x = np.zeros((950, 256, 256), np.uint8)  # unpacks to 62 MB, packed 60 kB
    given = {"y": np.zeros(len(x), int), "labels": [1], "judged": [1]}
    content = npz_bytes({"x": x, **{name: np.asarray(value) for name, value in given.items()}})
    for step in range(40):
        (path / "artifacts" / f"dreams-{step:03d}.npz").write_bytes(content)
    program = f"""
import pathlib
from dgdmn.report import write_report
from dgdmn.runs.environment import peak_memory_mb  # without what a child inherits from pytest
write_report([pathlib.Path({str(path)!r})], pathlib.Path({str(tmp_path / "report.html")!r}))
print(int(peak_memory_mb()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert int(done.stdout) < 700, "peak in MB"
    html = (tmp_path / "report.html").read_text()
    assert html.count("could not be used") == 1
    note = (
        "dreams-002.npz could not be used: the dreams of a run may have 128,000,000 bytes in total"
    )
    assert note in html


def test_the_newest_dreams(make_run):
    path = make_run("a")
    (path / "artifacts" / "dreams-x.npz").touch()
    assert newest_dreams(path).name == "dreams-004.npz"
    assert dreams_png(newest_dreams(path)).startswith(b"\x89PNG")
    assert dreams_png(path / "artifacts" / "dreams-x.npz") is None
    assert newest_dreams(path / "nowhere") is None


def test_a_short_row_leaves_its_end_empty():
    rows = [
        np.full((3, 2, 2), 9, np.uint8),
        np.full((1, 2, 2), 7, np.uint8),
        np.zeros((0, 2, 2), np.uint8),
    ]
    canvas, empty = tile(rows, 2)
    assert canvas.shape == (6, 4)
    assert empty.sum() == 4 + 8
    assert (canvas[2:4, :2] == 7).all()


def test_pictures_keep_colors_and_escape_names():
    colored = np.zeros((1, 4, 4, 3), np.uint8)
    colored[..., 0] = 255
    from PIL import Image

    image = Image.open(io.BytesIO(grid_png([colored], 2))).convert("RGB")
    assert image.size == (8, 4)
    assert image.getpixel((0, 0)) == (255, 0, 0)
    assert "<script>" not in picture([colored], 1, "<script>")
