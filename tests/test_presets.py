"""Appendix B, number by number."""

import ast
import inspect
import itertools
import json
from dataclasses import fields

import pytest

from dgdmn.errors import UsageError
from dgdmn.presets import ARRAYS, PAPER, PRESETS, Preset, as_dict, overridden, preset
from dgdmn.presets import fields as fields_module

STREAMS = ("digits", "permnist", "tdigits", "shapes", "hindi")


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        # n_max is "the total number of samples in the datasets (summed over all tasks)": MNIST has 60,000
        # training images; TDigits has four times as many and "half the total number of samples".
        ("digits", {"n_max": 60_000, "n_stm": 2, "latent": 32, "learner_layers": (24, 24), "n_classes": 10}),
        (
            "permnist",
            {"n_max": 6 * 30_000, "n_stm": 2, "latent": 64, "learner_layers": (48, 48), "n_classes": 10},
        ),
        (
            "tdigits",
            {"n_max": 4 * 60_000 // 2, "n_stm": 5, "latent": 96, "learner_layers": (36, 36), "n_classes": 40},
        ),
        ("shapes", {"n_max": 6 * 4_500, "n_stm": 2, "latent": 32, "learner_layers": (16,), "n_classes": 6}),
        ("hindi", {"n_max": 8 * 1_700, "n_stm": 2, "latent": 48, "learner_layers": (144,), "n_classes": 36}),
    ],
)
def test_what_the_paper_gives_for_each_stream(dataset, expected):
    given = as_dict(PAPER[dataset])
    assert {key: given[key] for key in expected} == json.loads(json.dumps(expected))


@pytest.mark.parametrize("dataset", STREAMS)
def test_what_the_paper_gives_for_all_streams(dataset):
    p = PAPER[dataset]
    assert (p.learning_rate, p.rho, p.epsilon, p.batch_size) == (0.001, 0.9, 1e-8, 128)
    assert (p.joint_epochs, p.learner_epochs, p.generator_epochs) == (20, 6, 25)
    assert (p.clip_norm, p.clip_value) == (1.0, 0.5)
    assert p.gamma == 1.55  # appendix A
    assert p.kappa == (0.05 if dataset == "tdigits" else 0.0)
    assert (p.samples_per_task, p.min_steps, p.beta) == (0, 0, 1.0), "none of ours"


OFF = {
    "index": "none", "prior_components": 0, "dreams": "once", "soft_labels": 0.0, "latent_noise": 0.0,
    "answers": "learner", "recognition": "reconstruction", "allocation": "age", "momentum": 0.0, "rate": "constant",
    "sttm_steps": 0, "beta": 1.0,
}  # fmt: skip
"""What goes beyond the paper, as the paper has it."""


@pytest.mark.parametrize("dataset", PAPER)
def test_what_goes_beyond_the_paper_is_off_in_its_preset_and_on_in_best(dataset):
    paper, best = preset("paper", dataset), preset("best", dataset)
    assert {name: getattr(paper, name) for name in OFF} == OFF
    left = {"soft_labels", "allocation"} | ({"sttm_steps"} if dataset == "embedded" else set())
    assert {name for name in OFF if getattr(best, name) == OFF[name]} == left, "left off in `best` too"
    assert (best.index, best.dreams, best.answers, best.recognition) == ("codes", "anew", "both", "density")
    assert (best.momentum, best.rate, best.latent_noise, best.beta) == (0.9, "cycle", 1.0, 0.1)
    assert best.prior_components == {"permnist": 200, "embedded": 100}.get(dataset, 400)


def test_kappa_and_n_stm_follow_the_papers_rule_on_tdigits():
    assert PAPER["tdigits"].kappa == 0.5 / 10  # κ = 0.5 / K, K = 10
    assert PAPER["tdigits"].n_stm == round(0.25 / PAPER["tdigits"].kappa)
    assert (
        PAPER["tdigits"].kappa_per == "task"
    )  # or the new tasks of a sleep would not have the other quarter


def test_convolutions_where_the_paper_has_them():
    kernels = {dataset: PAPER[dataset].learner_convolutions for dataset in STREAMS}
    assert kernels == {"digits": (), "permnist": (), "tdigits": (), "shapes": (12, 20), "hindi": (24, 32)}
    assert {dataset for dataset in STREAMS if PAPER[dataset].generator_convolutions} == {"shapes", "hindi"}
    assert all(len(PAPER[dataset].generator_layers) == 2 for dataset in ("digits", "permnist", "tdigits"))


@pytest.mark.parametrize("dataset", STREAMS)
def test_task_memories_are_smaller(dataset):
    p = PAPER[dataset]
    assert p.sttm_latent < p.latent
    pairs = [
        (p.sttm_generator_layers, p.generator_layers),
        (p.sttm_generator_convolutions, p.generator_convolutions),
        (p.sttm_learner_layers, p.learner_layers),
        (p.sttm_learner_convolutions, p.learner_convolutions),
    ]
    assert all(sum(small) <= sum(large) for small, large in pairs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kappa": 1.5}, r"kappa \(κ\) is 1.5; it must be in \[0, 1\]"),
        ({"kappa": -0.1}, r"kappa \(κ\) is -0.1; it must be in \[0, 1\]"),
        ({"kappa": float("nan")}, "kappa is nan; it must be a finite number"),
        ({"n_max": 0}, r"n_max \(N_max\) is 0; it must be at least 1"),
        ({"n_stm": 0}, r"n_stm \(n_STM\) is 0; it must be at least 1"),
        ({"gamma": -1}, r"gamma \(γ\) is -1; it must be at least 0"),
        ({"rho": 2}, r"rho \(ρ\) is 2; it must be in \[0, 1\]"),
        ({"beta": -1}, r"beta \(β\) is -1"),
        ({"latent": 0}, "latent is 0; it must be at least 1"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"learning_rate": 0}, "learning_rate is 0"),
        ({"generator_epochs": 0}, "generator_epochs is 0"),
        (
            {"learner_layers": (24, 0)},
            r"learner_layers is \(24, 0\); it must be a tuple of layer sizes, each at least 1",
        ),
        ({"age": "young"}, "age is 'young'; it must be one of seen, letter"),
        ({"kappa_per": "sleep"}, "kappa_per is 'sleep'; it must be one of replay, task"),
        ({"reconstructed": "old"}, "reconstructed is 'old'; it must be one of new, all, none"),
        ({"optimiser_state": "lost"}, "optimiser_state is 'lost'"),
        ({"beta": True}, "beta is True; it must be a finite number"),
        ({"sttm_steps": -1}, "sttm_steps is -1; it must be at least 0"),
        ({"momentum": 1}, r"momentum is 1; it must be in \[0, 0.999\]"),
        ({"prior_components": -1}, "prior_components is -1; it must be at least 0"),
        ({"prior_components": 2.5}, "prior_components is 2.5; it must be a whole number"),
        ({"soft_labels": 1.1}, r"soft_labels is 1.1; it must be in \[0, 1\]"),
        ({"latent_noise": -0.5}, "latent_noise is -0.5; it must be at least 0"),
        ({"index": "rows"}, "index is 'rows'; it must be one of none, codes"),
        ({"dreams": "twice"}, "dreams is 'twice'; it must be one of once, anew"),
        ({"answers": "prior"}, "answers is 'prior'; it must be one of learner, both"),
        ({"recognition": "ink"}, "recognition is 'ink'; it must be one of reconstruction, density"),
        ({"allocation": "task"}, "allocation is 'task'; it must be one of age, class"),
        ({"rate": "cosine"}, "rate is 'cosine'; it must be one of constant, cycle"),
    ],
)
def test_values_out_of_range_are_refused_in_one_sentence(change, message):
    with pytest.raises(UsageError, match=message) as raised:
        overridden(PAPER["digits"], change)
    assert "\n" not in str(raised.value)


def test_the_ends_of_a_range_are_allowed():
    assert overridden(PAPER["digits"], {"kappa": 1, "n_max": 1, "n_stm": 1}).kappa == 1


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: preset("papr"), "paper"),
        (lambda: preset("paper", "tdigit"), "tdigits"),
        (lambda: overridden(Preset(), {"kapa": 0.1}), "kappa"),
    ],
)
def test_unknown_names_get_a_suggestion(call, hint):
    with pytest.raises(UsageError, match=f"did you mean {hint}"):
        call()


def test_none_leaves_a_field_as_it_is():
    assert overridden(PAPER["hindi"], {"kappa": None, "n_stm": 3}).n_stm == 3
    assert overridden(PAPER["hindi"], {"kappa": None}) == PAPER["hindi"]


def test_named_presets():
    assert PRESETS == ("paper", "best", "quick", "arrays")
    assert preset("paper", "shapes") is PAPER["shapes"]
    assert preset("arrays") is ARRAYS
    assert preset("paper").n_classes == 0, "without a dataset the outputs grow"
    for dataset in PAPER:
        quick, paper = preset("quick", dataset), preset("paper", dataset)
        assert quick.samples_per_task * quick.generator_epochs < 5_000
        assert quick.n_max <= paper.n_max
        assert quick.learner_layers == paper.learner_layers, "the same networks"
        best = preset("best", dataset)
        for name in ("n_stm", "n_max", "learner_layers", "learner_convolutions", "n_classes", "exemplars"):
            assert getattr(best, name) == getattr(paper, name), "no more room than the paper's"


def test_a_preset_is_plain_json():
    plain = as_dict(PAPER["hindi"])
    assert json.loads(json.dumps(plain)) == plain
    assert plain.keys() == {field.name for field in fields(Preset)}


def test_every_field_says_where_it_comes_from():
    tree = ast.parse(inspect.getsource(fields_module))
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Preset").body
    said = {
        node.target.id: after.value.value
        for node, after in itertools.pairwise(body)
        if isinstance(node, ast.AnnAssign)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
    }
    assert said.keys() == {field.name for field in fields(Preset)}
    sources = ("appendix", "section", "Algorithm 1", "lines", "ours", "paper", "bound", " 2017")
    assert [name for name, text in said.items() if not any(source in text for source in sources)] == []
