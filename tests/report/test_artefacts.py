"""Arrays of old and new runs, of none, and of strangers."""

import io
import math
import zipfile

import numpy as np
import pytest

from dgdmn.report import artefacts
from dgdmn.report.runs import read_runs


@pytest.fixture
def run_with(make_run):
    """`run_with(name, **arrays)`: a run whose only artefact holds these arrays."""

    def make(name, /, **arrays):
        directory = make_run("r", artefacts="none")
        (directory / "artefacts").mkdir()
        np.savez(directory / "artefacts" / f"{name}.npz", **arrays)
        return read_runs([directory])[0][0]

    return make


def test_new_and_old_dreams(make_run):
    new, old = read_runs([make_run("new"), make_run("old", artefacts="old")])[0]
    seen, notes = artefacts.dreams(new)
    assert notes == []
    assert [one.step for one in seen] == [2, 4]
    assert all(one.by_task for one in seen)
    assert seen[1].purity == pytest.approx(28 / 32), "labels were moved by one: right but for one in eight"
    seen, notes = artefacts.dreams(old)
    assert notes == []
    assert not seen[0].by_task
    assert set(seen[1].rows) == {0, 1, 2, 3}
    assert math.isnan(seen[0].purity)
    assert artefacts.latents(old) == artefacts.resilience(old) == (None, [])


def test_none(make_run):
    ((run,), _) = read_runs([make_run("r", algorithm="nn")])
    assert artefacts.dreams(run) == ([], [])
    assert artefacts.reconstructions(run) == (None, [])


def test_rows_that_are_no_pictures_are_not_shown(run_with):
    rows = np.zeros((4, 7), np.uint8)
    ((dreams,), notes) = artefacts.dreams(run_with("dreams-002", x=rows, y=np.arange(4)))
    assert (len(dreams.x), notes) == (0, [])


def test_coloured_dreams(run_with):
    ((dreams,), _) = artefacts.dreams(
        run_with("dreams-002", x=np.zeros((4, 6, 6, 3), np.uint8), y=np.arange(4))
    )
    assert dreams.x.shape == (4, 6, 6, 3)


@pytest.mark.parametrize(
    ("name", "arrays", "note"),
    [
        ("dreams-002", {"y": np.arange(3)}, "dreams-002.npz could not be used: it lacks 'x'"),
        ("dreams-002", {"x": np.zeros((3, 4, 4), np.uint8), "y": np.arange(2)}, "not equally many"),
        ("reconstructions", {"x": np.zeros((3, 4, 4), np.uint8)}, "it lacks 'reconstructed'"),
        ("latents", {"z": np.full((3, 2), np.nan), "y": np.arange(3)}, "not one finite row a label"),
        (
            "resilience",
            {"noise": np.arange(3), "noise_accuracy_unclipped": np.arange(2)},
            "not equally many",
        ),
    ],
    ids=["no-x", "lengths", "no-reconstruction", "nan", "curve"],
)
def test_what_does_not_fit_is_a_note(run_with, name, arrays, note):
    run = run_with(name, **arrays)
    read = getattr(artefacts, name.split("-")[0])
    (said,) = read(run)[1]
    assert note in said


def test_noise_is_shown_as_the_paper_added_it_or_not_at_all(make_run, run_with):
    ((run,), _) = read_runs([make_run("new")])
    found, _ = artefacts.resilience(run)
    assert found.noise_accuracy == pytest.approx((0.9, 0.8, 0.7)), "not clipped"
    level = np.array([0.1, 0.2])
    found, notes = artefacts.resilience(
        run_with("resilience", noise=level, noise_accuracy=level, occlusion=level, occlusion_accuracy=level)
    )
    assert (found.noise, found.noise_accuracy, notes) == ((), (), []), "an older version clipped it"
    assert found.occlusion == (0.1, 0.2)


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04 cut off", b"\x00" * 100], ids=["empty", "cut", "zeros"]
)
def test_damage_is_a_note(make_run, content):
    directory = make_run("r")
    for path in (directory / "artefacts").iterdir():
        path.write_bytes(content)
    ((run,), _) = read_runs([directory])
    assert len(artefacts.dreams(run)[1]) == 2
    for read in (artefacts.reconstructions, artefacts.latents, artefacts.resilience):
        found, (note,) = read(run)
        assert found is None
        assert "could not be used" in note


def test_a_bomb_is_not_unpacked(make_run):
    directory = make_run("r")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("z.npy", "w") as member:
        for _ in range(65):
            member.write(bytes(1_000_000))
    assert len(content.getvalue()) < 200_000
    (directory / "artefacts" / "latents.npz").write_bytes(content.getvalue())
    ((run,), _) = read_runs([directory])
    (note,) = artefacts.latents(run)[1]
    assert "has 65,000,000 bytes: a report reads at most 64,000,000" in note


def test_pickles_are_not_opened(run_with):
    run = run_with("latents", z=np.array([{"a": 1}], dtype=object), y=np.arange(1))
    assert "could not be used" in artefacts.latents(run)[1][0]
