"""A memory saved in format 1 can be read for good.

`format-1/` was saved by version 0.1.0 and is never made again. It is

    memory = DGDMN(
        n_stm=2, generator_layers=(6,), latent=2, learner_layers=(5,), sttm_generator_layers=(4,), sttm_latent=2,
        sttm_learner_layers=(4,), min_steps=200, value_range=(-1, 3), random_state=0,
    )
    for task in range(3):  # the second one fills the short-term memory, the third one is awake
        memory.partial_fit(*rows(task), task=NAMES[task])
    memory.save("format-1/memory")

and `expected.json` holds what it then answered to `QUESTIONS`.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from dgdmn import load

HERE = Path(__file__).parent / "format-1"
NAMES = ("ant", "bee", "cat")
QUESTIONS = np.linspace(-1, 3, 40).reshape(10, 4)


def rows(task):
    """Twenty rows of four features: the feature of the task's number is high."""
    X = np.where(np.arange(4) == task, 2.5, -0.5) + np.linspace(-0.4, 0.4, 80).reshape(20, 4)
    return X, np.full(20, NAMES[task])


def answers(memory):
    return {
        "predict_proba": memory.predict_proba(QUESTIONS).tolist(),
        "predict_proba of cat": memory.predict_proba(QUESTIONS, task="cat").tolist(),
        "predict_proba of ant": memory.predict_proba(QUESTIONS, task="ant").tolist(),
        "reconstruct": memory.reconstruct(QUESTIONS).tolist(),
        "sample": memory.sample(5, random_state=0)[0].tolist(),
    }


@pytest.fixture
def memory(tmp_path):
    shutil.copytree(HERE / "memory", tmp_path / "memory")
    return load(tmp_path / "memory")


def test_it_answers_as_it_did(memory):
    expected, found = json.loads((HERE / "expected.json").read_text()), answers(memory)
    assert found.keys() == expected.keys()
    for question, answer in expected.items():
        np.testing.assert_allclose(found[question], answer, rtol=0, atol=1e-6, err_msg=question)


def test_it_knows_what_it_knew(memory):
    assert memory.consolidated_tasks() == ("ant", "bee")
    assert memory.awake_tasks() == ("cat",)
    assert memory.classes_.tolist() == list(NAMES)
    assert memory.value_range == (-1, 3)
    for task, name in enumerate(NAMES):
        assert (memory.predict(rows(task)[0], task=name) == name).mean() > 0.9


def test_it_goes_on_learning(memory, tmp_path):
    X = np.where(np.arange(4) == 3, 2.5, -0.5) + np.linspace(-0.4, 0.4, 80).reshape(20, 4)
    memory.partial_fit(X, np.full(20, "dog"), task="dog")
    assert memory.consolidated_tasks() == (*NAMES, "dog")
    assert (memory.predict(X, task="dog") == "dog").mean() > 0.9
    memory.save(tmp_path / "memory")
    again = load(tmp_path / "memory")
    assert np.array_equal(again.predict_proba(QUESTIONS), memory.predict_proba(QUESTIONS))
