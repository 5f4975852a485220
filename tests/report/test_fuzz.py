"""Whatever the files of a run say, there is a page and there are figures."""

import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dgdmn.records import RunWriter
from dgdmn.report.figures import write_figures
from dgdmn.report.load import load_runs
from dgdmn.report.page import render

NUMBERS = st.sampled_from([0, 1, -1, 2.5, 1e300, -(10**400), 10**400, math.inf, math.nan, True])
ANY = (
    st.none() | NUMBERS | st.text(max_size=4) | st.lists(NUMBERS | st.text(max_size=2), max_size=3)
)
NAMES = (
    "stream",
    "algorithm",
    "preset",
    "seed",
    "evaluate_on",
    "revise",
    "together",
    "changes",
    "options",
    "classes",
)
CONFIGS = st.dictionaries(
    st.sampled_from(NAMES), ANY | st.dictionaries(st.sampled_from(["n_max", "a"]), ANY), max_size=4
)
KINDS = (
    "task_began",
    "epoch_done",
    "sleep_started",
    "sleep_ended",
    "replayed",
    "task_learned",
    "evaluated",
    "resumed",
    "recognized",
)
EVENTS = st.fixed_dictionaries(
    {"kind": st.sampled_from(KINDS), "seconds": ANY},
    optional={
        "step": ANY,
        "n_tasks": ANY,
        "n_gen": ANY,
        "dreamed": ANY,
        "memory": st.just("ltm"),
        "done": ANY,
        "losses": ANY | st.dictionaries(st.sampled_from(["a", "b"]), ANY),
    },
)
SUMMARIES = st.dictionaries(
    st.sampled_from(["done", "train_seconds", "memory_bytes", "samples_trained"]), ANY
)
ARRAYS = arrays.arrays(
    st.sampled_from([np.uint8, np.int64, np.float64]),
    arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
    elements={"min_value": 0, "max_value": 9},
)
FILES = {
    "dreams-002": ("x", "y", "task", "labels", "judged"),
    "reconstructions": ("x", "reconstructed"),
    "latents": ("z", "y"),
    "resilience": (
        "noise",
        "noise_accuracy_unclipped",
        "occlusion",
        "occlusion_accuracy",
        "corrupted",
        "restored",
    ),
}


EXTRAS = st.none() | st.dictionaries(
    st.sampled_from(["trained", "sleeps", "phases", "dreams", "resilience", "recognized"]),
    ANY | st.dictionaries(st.sampled_from(["noise", "events", "sleep"]), ANY),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(CONFIGS, st.lists(EVENTS, max_size=5), SUMMARIES, EXTRAS, st.data())
def test_there_is_a_page(tmp_path_factory, config, events, summary, extra, data):
    path = tmp_path_factory.mktemp("fuzz") / "run"
    known = {"format": 2, "key": "k", "tasks": ["a", "b"]}
    writer = RunWriter(path, known)
    writer.row("accuracy", "a", [1.0, 0.0])
    (path / "config.json").write_text(json.dumps({**known, **config}))
    (path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    (path / "summary.json").write_text(json.dumps({"done": True, **summary}))
    if extra is not None:
        (path / "extra.json").write_text(json.dumps(extra))
    name = data.draw(st.sampled_from(list(FILES)))
    writer.artifact(name, **{key: data.draw(ARRAYS, label=key) for key in FILES[name]})
    runs, problems = load_runs([path])
    html = render(runs, problems)
    assert html.startswith("<!doctype html>")
    assert html.rstrip().endswith("</html>")
    if data.draw(st.integers(0, 9)) == 0:  # figures take longer than pages
        write_figures(runs, path.with_name("figures"))
