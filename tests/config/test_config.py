"""Config and its presets: ranges and kinds, appendix B number by number, and the values of commit a5f71d2."""

import json
import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdmn.config import (
    DEFAULT_PRESET,
    PAPER,
    PRESETS,
    Config,
    default_threads,
    field_docs,
    override,
    resolve,
    sources_of,
    to_dict,
)
from dgdmn.config.registry import CLOSED_FORM_OPTIONS, MIXTURE_OPTIONS, STREAMS
from dgdmn.config.resolve import key_of
from dgdmn.core.errors import UsageError

PAPER_STREAMS = ("digits", "permnist", "tdigits", "shapes", "hindi")
FROZEN = json.loads((Path(__file__).parents[1] / "frozen_presets.json").read_text("utf-8"))
"""Resolved presets of commit a5f71d2 with the option names of today: `Config` is every default, the others are
differences from it."""
KINDS = get_type_hints(Config)
RANGES = {field.name: field.metadata["range"] for field in fields(Config) if field.metadata}


# Values


def refused(name, value):
    """The message with which a value is refused."""
    with pytest.raises(UsageError) as raised:
        Config(**{name: value})
    message = str(raised.value)
    assert message.startswith(name)
    assert "; it must be" in message
    assert "\n" not in message
    return message


def test_every_number_has_a_range_and_nothing_else_has():
    numbers = {name for name, kind in KINDS.items() if kind in (int, float)}
    assert RANGES.keys() == numbers


@pytest.mark.parametrize("name", RANGES)
def test_values_outside_the_range_are_refused_and_its_ends_are_not(name):
    (low, high), whole = RANGES[name], KINDS[name] is int
    below = low - 1 if whole else math.nextafter(low, -math.inf)
    assert f"at least {low:g}" in refused(name, below) or f"in [{low:g}," in refused(name, below)
    assert getattr(Config(**{name: low}), name) == low
    above = high + 1 if whole else math.nextafter(high, math.inf)
    most = f"at most {high:,}" if whole else f"at most {high:g}"
    assert (f"in [{low:g}, {high:g}]" if high <= 1 else most) in refused(name, above)
    if name != "rho":  # below 1
        assert getattr(Config(**{name: high}), name) == high


def test_every_range_is_bounded_and_contains_every_preset_by_far():
    assert all(high < math.inf for _, high in RANGES.values())
    for name, (_, high) in RANGES.items():
        used = [getattr(resolve(preset, stream), name) for preset in PRESETS for stream in PAPER]
        assert max(used) <= (high if high <= 1 else high / 50)


def test_a_message_is_short_whatever_the_value():
    for value in ((1,) * 10**5, 10**400, "x" * 10**5):
        assert len(refused("learner_layers", value)) < 250
        assert len(refused("n_stm", value)) < 250
    assert "up to 1,000 layer sizes" in refused("learner_layers", (1,) * 1001)
    assert "from 1 to 1,000,000" in refused("learner_layers", (10**6 + 1,))
    assert Config(learner_layers=(10**6,) * 1000)


@pytest.mark.parametrize("name", KINDS)
def test_values_of_the_wrong_kind_are_refused(name):
    kind = KINDS[name]
    wrong = ["text", None, (1, 2), object()]
    if kind is bool:
        wrong += [0, 1, "true"]
    elif kind is int:
        wrong += [True, 2.0, math.nan, "2"]
    elif kind is float:
        wrong += [True, math.nan, math.inf, 10**400, "0.5"]
    elif get_origin(kind) is Literal:
        wrong += [False, 1.5, b"seen"]
    else:
        wrong = [24, "24", None, (24, 0), (24, 1.5), (True,), (-1,)]
    for value in wrong:
        refused(name, value)


def test_messages_name_the_symbol_of_the_paper():
    assert refused("kappa", 1.5) == "kappa (κ) is 1.5; it must be in [0, 1]"
    assert refused("n_max", 0) == "n_max (N_max) is 0; it must be at least 1 and at most 10,000,000"
    assert refused("rho", 1) == "rho (ρ) is 1.0; it must be below 1"
    assert refused("age", "young") == "age is 'young'; it must be one of seen, n_total"
    assert refused("code_buffer", 1) == "code_buffer is 1; it must be True or False"
    assert refused("prior_components", 2.5) == "prior_components is 2.5; it must be a whole number"
    assert refused("beta", math.nan) == "beta is nan; it must be a finite number"
    assert "up to 1,000 layer sizes from 1 to 1,000,000" in refused("learner_layers", (24, 0))


def test_every_choice_is_accepted():
    for name, kind in KINDS.items():
        for value in get_args(kind) if get_origin(kind) is Literal else ():
            assert getattr(Config(**{name: value}), name) == value


def test_equal_configs_have_equal_json_whatever_types_were_given():
    given = {"learner_layers": [3, np.int32(4)], "n_max": np.int64(5), "kappa": 1, "beta": 0}
    config = Config(**given, tdigits_classes=10.0, code_buffer=True)
    plain = Config(
        learner_layers=(3, 4), n_max=5, kappa=1.0, beta=0.0, tdigits_classes=10, code_buffer=True
    )
    assert config == plain
    assert json.dumps(to_dict(config)) == json.dumps(to_dict(plain))
    assert key_of(to_dict(config)) == key_of(to_dict(plain))
    assert config.learner_layers == (3, 4)


def test_overriding():
    hindi = PAPER["hindi"]
    assert override(hindi, {"kappa": None}) == hindi, "None leaves a field as it is"
    assert override(hindi, {"kappa": None, "n_stm": 3}) == replace(hindi, n_stm=3)
    with pytest.raises(UsageError, match=r"no hyperparameter 'kapa' \(did you mean kappa\?\)"):
        override(hindi, {"kapa": 0.1})


@pytest.mark.parametrize("gone", ["soft_labels", "allocation", "optimizer_state", "latent"])
def test_options_that_are_gone_are_refused(gone):
    with pytest.raises(UsageError, match=f"no hyperparameter '{gone}'"):
        override(Config(), {gone: 1})


# Presets


@pytest.mark.parametrize("name", [name for name in FROZEN if name != "Config"])
def test_presets_are_those_of_the_frozen_commit(name):
    frozen = {**FROZEN["Config"], **FROZEN[name]}
    resolved = to_dict(resolve(name))
    assert {key: resolved[key] for key in frozen} == frozen
    new = {key: value for key, value in resolved.items() if key not in frozen}
    assert new.keys() == {*CLOSED_FORM_OPTIONS, *MIXTURE_OPTIONS}
    assert new.items() <= to_dict(Config()).items(), "the VAE memory"


def test_the_names_of_presets():
    assert list(PRESETS) == ["best", "deep", "paper", "quick"]
    assert DEFAULT_PRESET == "best"
    for stream in STREAMS.keys() - PAPER.keys():
        assert resolve("deep", stream) == resolve("deep"), "the options for own arrays"
    for stream in (*PAPER, None):
        assert resolve("best", stream) == replace(resolve("deep", stream), generator="mixture")
    assert {resolve(name).generator for name in ("deep", "paper", "quick")} == {"vae"}
    assert resolve("paper", "shapes") is PAPER["shapes"]
    assert resolve("deep/hindi") == resolve("deep", "hindi") != resolve("deep")
    assert FROZEN["Config"].items() <= to_dict(Config()).items()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ["papr"],
            r"no preset 'papr' \(did you mean paper\?\); there are best, deep, paper, quick",
        ),
        (["arrays"], "no preset 'arrays'"),
        (
            ["paper", "tdigit"],
            r"no preset for 'tdigit' \(did you mean tdigits\?\); there are some for",
        ),
        (["deep/hindu"], r"did you mean hindi\?"),
        (["deep/"], "no preset for ''"),
    ],
)
def test_unknown_presets_are_refused_with_a_suggestion(names, message):
    with pytest.raises(UsageError, match=message):
        resolve(*names)


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        # n_max is "the total number of samples in the datasets (summed over all tasks)": MNIST has 60,000
        # training images; TDigits has four times as many and "half the total number of samples".
        ("digits", (60_000, 2, 32, (24, 24), 10)),
        ("permnist", (6 * 30_000, 2, 64, (48, 48), 10)),
        ("tdigits", (4 * 60_000 // 2, 5, 96, (36, 36), 40)),
        ("shapes", (6 * 4_500, 2, 32, (16,), 6)),
        ("hindi", (8 * 1_700, 2, 48, (144,), 36)),
    ],
)
def test_appendix_b_for_each_stream(stream, expected):
    p = PAPER[stream]
    assert (p.n_max, p.n_stm, p.latent_dim, p.learner_layers, p.n_classes) == expected


@pytest.mark.parametrize("stream", PAPER_STREAMS)
def test_appendix_b_for_all_streams(stream):
    p = PAPER[stream]
    assert (p.learning_rate, p.rho, p.epsilon, p.batch_size) == (0.001, 0.9, 1e-8, 128)
    assert (p.joint_epochs, p.learner_epochs, p.generator_epochs) == (20, 6, 25)
    assert (p.clip_norm, p.clip_value) == (1.0, 0.5)
    assert p.gamma == 1.55  # appendix A
    assert p.kappa == (0.05 if stream == "tdigits" else 0.0)
    assert (p.samples_per_task, p.min_steps, p.beta) == (0, 0, 1.0), "none of ours"
    kernels = {"shapes": (12, 20), "hindi": (24, 32)}
    assert p.learner_convolutions == kernels.get(stream, ())
    assert bool(p.generator_convolutions) == (stream in kernels)
    assert stream in kernels or len(p.generator_layers) == 2


def test_kappa_and_n_stm_follow_the_rule_of_the_paper_on_tdigits():
    tdigits = PAPER["tdigits"]
    assert tdigits.kappa == 0.5 / 10  # κ = 0.5 / K, K = 10
    assert tdigits.n_stm == round(0.25 / tdigits.kappa)
    assert tdigits.kappa_per == "task", "else the new tasks of a sleep would not get a quarter"


@pytest.mark.parametrize("stream", PAPER_STREAMS)
def test_task_memories_are_smaller(stream):
    p = PAPER[stream]
    assert p.sttm_latent_dim < p.latent_dim
    pairs = [
        (p.sttm_generator_layers, p.generator_layers),
        (p.sttm_generator_convolutions, p.generator_convolutions),
        (p.sttm_learner_layers, p.learner_layers),
        (p.sttm_learner_convolutions, p.learner_convolutions),
    ]
    assert all(sum(small) <= sum(large) for small, large in pairs)


BEYOND_THE_PAPER = {
    "code_buffer": False,
    "prior_components": 0,
    "resample_dreams": False,
    "latent_noise": 0.0,
    "predict_with": "learner",
    "recognition": "reconstruction",
    "momentum": 0.0,
    "lr_schedule": "constant",
    "beta": 1.0,
}
"""Options that go beyond the paper, and the value that switches each off."""


@pytest.mark.parametrize("stream", PAPER)
def test_what_goes_beyond_the_paper_is_off_in_paper_and_on_in_deep(stream):
    paper, deep = resolve("paper", stream), resolve("deep", stream)
    for name, off in BEYOND_THE_PAPER.items():
        assert getattr(paper, name) == off
        assert getattr(deep, name) != off
    same = ("n_stm", "n_max", "learner_layers", "learner_convolutions", "n_classes", "exemplars")
    assert [name for name in same if getattr(deep, name) != getattr(paper, name)] == []


@pytest.mark.parametrize("stream", PAPER)
def test_quick_has_the_networks_of_the_paper_and_less_data(stream):
    quick, paper = resolve("quick", stream), resolve("paper", stream)
    assert quick.samples_per_task * quick.generator_epochs < 5_000
    assert quick.n_max <= min(paper.n_max, 2_000)
    layers = [field.name for field in fields(Config) if field.name.endswith(("layers", "utions"))]
    assert all(getattr(quick, name) == getattr(paper, name) for name in layers)


# Explanations


def test_every_field_says_what_it_means_and_where_it_comes_from():
    docs = field_docs()
    assert list(docs) == [field.name for field in fields(Config)]
    sources = ("appendix", "section", "Algorithm 1", "line", "ours", "paper", " 2017")
    silent = ["samples_per_task", "recognize_per"]
    unsourced = [name for name, doc in docs.items() if not any(one in doc for one in sources)]
    assert set(unsourced) <= set(silent), unsourced
    assert all(doc.endswith(".") and "\n" not in doc for doc in docs.values())


def test_sources_name_the_origin_of_each_value():
    docs, paper = field_docs(), sources_of("paper", "tdigits")
    assert paper.keys() == docs.keys()
    assert paper["n_stm"].endswith("(section 4.2).")
    assert paper["n_max"].endswith("(half the dataset, section 4.2).")
    assert (
        paper["latent_dim"] == "Size of the latent variable z of the long-term memory (appendix B)."
    )
    assert paper["ppr_memory"].endswith("(ours)."), "no source beside the value"
    assert paper["momentum"] == docs["momentum"], "the value of Digits keeps its own source"
    deep = sources_of("deep", "tdigits")
    assert deep["latent_dim"].endswith("long-term memory (ours).")
    assert deep["n_stm"] == paper["n_stm"], "not changed by deep"


@pytest.mark.parametrize("stream", PAPER)
def test_every_changed_value_of_a_preset_has_one_source(stream):
    for name in PRESETS:
        config, sources = resolve(name, stream), sources_of(name, stream)
        for field, value in to_dict(config).items():
            if value != to_dict(PAPER["digits"])[field]:
                assert sources[field].endswith(")."), (name, field)
                assert "((" not in sources[field]


def test_a_config_is_plain_json():
    plain = to_dict(PAPER["hindi"])
    assert json.loads(json.dumps(plain)) == plain
    assert plain.keys() == {field.name for field in fields(Config)}
    assert Config(**plain) == PAPER["hindi"]


# Keys and threads

values = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
)
trees = st.recursive(
    values, lambda t: st.lists(t, max_size=3) | st.dictionaries(st.text(max_size=5), t, max_size=3)
)


def reverse(tree):
    """The same JSON value with the keys of every object in another order."""
    if isinstance(tree, dict):
        return {key: reverse(tree[key]) for key in reversed(tree)}
    return [reverse(item) for item in tree] if isinstance(tree, list) else tree


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(max_size=5), trees, max_size=4))
def test_keys_do_not_depend_on_order(tree):
    assert key_of(tree) == key_of(reverse(tree)) == key_of(json.loads(json.dumps(tree)))


def test_keys_differ_where_values_do_and_never_change():
    options = to_dict(PAPER["digits"])
    keys = {key_of(options), *(key_of({**options, name: -1}) for name in options)}
    assert len(keys) == len(options) + 1
    assert key_of({"a": 1, "b": [2, "é"]}) == "0eae2f59903631b4", "stored runs"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("3", 3),
        ("1", 1),
        ("", 1),
        ("0", 1),
        ("-2", 1),
        ("1.5", 1),
        ("two", 1),
        ("²", 1),
        ("2,1", 1),
    ],
)
def test_threads_follow_the_environment(monkeypatch, value, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert default_threads() == expected


def test_too_many_threads_are_refused_by_the_name_of_the_variable(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5000")
    with pytest.raises(UsageError, match="OMP_NUM_THREADS is 5000; set it to a whole number"):
        default_threads()


def test_one_thread_without_the_environment(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert default_threads() == 1
