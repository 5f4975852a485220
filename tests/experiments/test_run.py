"""A run on every stream: rows, columns, artefacts, and what the protocol must do at a stream's end."""

import itertools
import os
from dataclasses import replace

import numpy as np
import pytest

from dgdmn import streams
from dgdmn.algorithms import ALGORITHMS
from dgdmn.errors import UsageError
from dgdmn.experiments.run import execute
from dgdmn.experiments.spec import RunSpec
from dgdmn.presets import Preset, preset

TINY = {"samples_per_task": 16, "generator_epochs": 1, "learner_epochs": 1, "joint_epochs": 1, "min_steps": 4}


def spec(dataset="embedded", algorithm="dgdmn", name="quick", **changes):
    return RunSpec(dataset, algorithm, name, replace(preset(name, dataset), **TINY, **changes))


def pairs():
    """Every algorithm on every stream; in the quick suite on one dense and one convolutional."""
    for dataset, algorithm in itertools.product(streams.STREAMS, ALGORITHMS):
        quick = algorithm in ("nn", "dgdmn") or dataset in ("embedded", "hindi")
        yield pytest.param(dataset, algorithm, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize(("dataset", "algorithm"), list(pairs()))
def test_every_algorithm_runs_on_every_stream(tmp_path, dataset, algorithm):
    if dataset != "embedded" and not os.environ.get("DGDMN_DATA"):
        pytest.skip("DGDMN_DATA names no directory with the real datasets")
    record = execute(spec(dataset, algorithm), tmp_path)
    tasks = len(streams.load(dataset))
    assert record.complete
    assert record.accuracy.shape == (tasks, tasks)
    assert np.isfinite(record.accuracy).all(), "also on tasks to come"
    assert (record.accuracy_ltm is None) == (not algorithm.startswith("dg"))
    assert record.summary["memory_bytes"] > record.summary["exemplar_bytes"] >= 0
    assert record.summary["peak_rss_mb"] > 0
    intact = record.artefact("resilience")["noise_accuracy"][0]
    assert intact == pytest.approx(record.summary["acc"]), "so few rows are tested that they are all of them"
    assert {"latents", "reconstructions"} <= set(record.artefacts) or not algorithm.startswith("dg")


BRIEF = {"batch_size": 16, "sttm_steps": 4, "n_max": 400}


@pytest.mark.parametrize("algorithm", ["dgdmn", pytest.param("dgdmn-recog", marks=pytest.mark.slow)])
@pytest.mark.parametrize("dataset", streams.STREAMS)
def test_best_runs_on_every_stream_with_its_own_sizes(tmp_path, dataset, algorithm):
    if dataset != "embedded" and not os.environ.get("DGDMN_DATA"):
        pytest.skip("DGDMN_DATA names no directory with the real datasets")
    record = execute(spec(dataset, algorithm, "best", **BRIEF), tmp_path)
    assert record.complete
    assert np.isfinite(record.accuracy).all()
    assert np.isfinite(record.accuracy_ltm[-1]).all()
    assert record.config["options"]["answers"] == "both"


def test_tdigits_may_be_of_ten_classes_digit_by_digit(tmp_path):
    ten = spec("tdigits", "nn", tdigits="ten", n_classes=10)
    assert "-tdigits-ten-" in ten.name
    with pytest.raises(UsageError, match="tdigits is ten, but the dataset is digits"):
        spec("digits", tdigits="ten")
    if not os.environ.get("DGDMN_DATA"):
        pytest.skip("DGDMN_DATA names no directory with the real datasets")
    record = execute(ten, tmp_path)
    assert record.config["tasks"][:5] == ["0", "0 mirrored", "0 upside down", "0 transposed", "1"]
    assert record.config["classes"] == list(range(10))


def test_the_ltm_row_is_empty_until_the_first_sleep(tmp_path):
    record = execute(spec(n_stm=4), tmp_path)
    assert np.isnan(record.accuracy_ltm[:3]).all()
    assert np.isfinite(record.accuracy_ltm[3:]).all()


def test_a_stream_that_ends_half_full_sleeps_and_records_both_rows(tmp_path):
    record = execute(spec(n_stm=4), tmp_path)  # ten tasks: sleeps after 4, 8 and the end
    lines = (record.directory / "accuracy.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines[-2:]] == ["10", "10"]
    assert record.summary["sleeps"] == 3
    assert (record.accuracy[-1] == record.accuracy_ltm[-1]).all(), (
        "the last row is the long-term memory alone"
    )
    assert "dreams-010" in record.artefacts


def test_the_same_seed_gives_the_same_bits(tmp_path):
    first, second = (execute(spec(), tmp_path / name) for name in "ab")
    other = execute(replace(spec(), seed=1), tmp_path / "c")
    assert (first.directory / "accuracy.csv").read_bytes() == (second.directory / "accuracy.csv").read_bytes()
    dreams = [record.artefact("dreams-010")["x"] for record in (first, second, other)]
    assert np.array_equal(dreams[0], dreams[1])
    assert not np.array_equal(dreams[0], dreams[2])


def test_another_computation_in_the_directory_is_refused(tmp_path):
    record = execute(spec(algorithm="nn"), tmp_path)
    config = (record.directory / "config.json").read_text()
    (record.directory / "config.json").write_text(config.replace('"batch_size": 32', '"batch_size": 33'))
    with pytest.raises(UsageError, match="holds a run with batch_size = 33, not 32"):
        execute(spec(algorithm="nn"), tmp_path)


def test_a_task_is_cut_to_the_rows_asked_for(tmp_path):
    record = execute(spec(algorithm="nn"), tmp_path)
    began = [event for event in record.events if event["kind"] == "task_began"]
    assert [event["samples"] for event in began] == [16] * 10


def test_very_many_options_still_make_a_file_name():
    many = {"kappa": 0.25, "n_stm": 7, "generator_epochs": 31, "learner_epochs": 33, "joint_epochs": 35, "beta": 0.7,
            "sttm_generator_layers": (16, 17), "sttm_learner_layers": (18, 19), "generator_layers": (20, 21),
            "clip_norm": 3.5, "clip_value": 4.5}  # fmt: skip
    one, other = (
        RunSpec("digits", "dgdmn", "paper", Preset(**many)).name,
        RunSpec("digits", "dgdmn", "paper", Preset(**{**many, "beta": 0.8})).name,
    )
    assert len(one) < 200
    assert one != other
    assert "-options-" in one
