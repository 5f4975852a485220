"""Learned states and results are those of commit a5f71d2, the last one before the restructuring.

`states.json` was made with the code of that commit, torch and the processor it names, and one thread. Each
case has an algorithm, a preset and data: "images" are four tasks of 40 rows of scikit-learn's digits (0, 1,
2, and 0 again, so that a short-term memory sleeps and a task is learned again); "table" is three tasks of 40
rows with five columns of different ranges. A case stores digests of the memory's arrays and of
`predict_proba` after learning ("before"), after save and load ("after_load") and after one more task
("continued"), the memory's bytes, a digest of five samples where it can generate, and some probabilities
("p"). The option values behind a preset's name belong to the fixture: `deep` is the preset that was called
`best` then.

With the same torch and processor the digests must be equal. Elsewhere sums round differently, and the
probabilities must agree to 1e-4.

`results.json` lists stream, algorithm, preset, seed, ACC and BWT of every run in results/ at that commit.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from dgdmn import load, metrics
from dgdmn.algorithms import algorithm
from dgdmn.records import RunRecord
from dgdmn.runs.environment import processor_name
from dgdmn.storage import arrays_in, to_numpy
from dgdmn.streams import load as load_stream

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "results"
FROZEN = json.loads((HERE / "states.json").read_text())
SMALL = {
    "min_steps": 20,
    "generator_epochs": 2,
    "learner_epochs": 2,
    "joint_epochs": 2,
    "batch_size": 32,
}
LARGE_NETWORKS = ("/hindi", "/shapes", "/tdigits", "deep/digits")
CASES = [
    pytest.param(
        case, marks=pytest.mark.slow if any(part in case for part in LARGE_NETWORKS) else ()
    )
    for case in FROZEN["cases"]
]


def digest(*parts):
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def digest_state(memory):
    """A digest of all arrays, whatever they are called."""
    arrays = [to_numpy(array) for _, array in arrays_in(memory.state())]
    each = [
        hashlib.sha256(f"{array.shape} torch.{array.dtype}".encode() + array.tobytes()).hexdigest()
        for array in arrays
        if array.size
    ]
    return digest(*[one.encode() for one in sorted(each)])


def summarize(model, X):
    return {
        "state": digest_state(model.fitted_.memory),
        "proba": digest(model.predict_proba(X).tobytes()),
    }


def make_tasks(kind):
    """The tasks of a case, and the inputs to predict."""
    if kind == "images":
        stream = load_stream("embedded")
        chosen = [stream[number] for number in (0, 1, 2, 0)]
        tasks = [(task.name, task.train.x[:40], task.train.y[:40]) for task in chosen]
        return tasks, np.concatenate([task.test.x[:8] for task in chosen[:3]])
    rng, tasks = np.random.default_rng(0), []
    for label in range(3):
        mean, deviation = [4 * label, -4 * label, 1, 0, 100], [1, 1, 2, 0.1, 30]
        x = rng.normal(mean, deviation, size=(40, 5))
        tasks.append((f"t{label}", x, np.full(40, label)))
    return tasks, np.concatenate([x[:8] for _, x, _ in tasks])


@pytest.mark.filterwarnings("ignore:values outside")
@pytest.mark.parametrize("case", CASES)
def test_a_learned_state_is_the_frozen_one(case, tmp_path):
    name, preset, data = case.split()
    frozen, kind = FROZEN["cases"][case], algorithm(name)
    tasks, X = make_tasks(data)
    known = kind._get_param_names()
    options = {key: value for key, value in SMALL.items() if key in known}
    model = kind(preset, random_state=0, threads=1, **options)
    for task, x, y in tasks:
        model.partial_fit(x, y, task=task)
    np.testing.assert_allclose(model.predict_proba(X)[::4], frozen["p"], atol=1e-4)
    same_machine = [FROZEN["torch"], FROZEN["processor"]] == [torch.__version__, processor_name()]
    if not same_machine:
        return
    found = {"before": summarize(model, X), "bytes": model.memory_bytes()}
    if hasattr(model, "sample") and model.consolidated_tasks():
        x, y = model.sample(5, random_state=1)
        found["sample"] = digest(x.tobytes(), np.asarray(y).tobytes())
    model.save(tmp_path)
    loaded = load(tmp_path, threads=1)
    found["after_load"] = summarize(loaded, X)
    loaded.partial_fit(*tasks[1][1:], task="later")
    found["continued"] = summarize(loaded, X)
    assert found == {key: value for key, value in frozen.items() if key != "p"}


def test_acc_and_bwt_of_every_result_are_the_frozen_ones():
    found = []
    for path in RESULTS.glob("*/config.json"):
        run = RunRecord.read(path.parent)
        setup = [run.config[key] for key in ("stream", "algorithm", "preset", "seed")]
        bwt = metrics.bwt(run.accuracy, run.columns)
        found.append([*setup, metrics.acc(run.accuracy), bwt])
    frozen = json.loads((HERE / "results.json").read_text())
    assert [row[:4] for row in sorted(found)] == [row[:4] for row in sorted(frozen)]
    for column in (4, 5):
        values, expected = ([row[column] for row in sorted(rows)] for rows in (found, frozen))
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)
