"""Targets: every number of the paper has its runs, and every run is what it says."""

from pathlib import Path

import pytest

from dgdmn.core.errors import UsageError
from reproduction import figures, paper
from reproduction.__main__ import missing_runs
from reproduction.results import Results
from reproduction.targets import TARGETS, Goal, parse_run, parse_runs, select, unique

NAMES = [
    "table-acc",
    "table-bwt",
    "figure-permnist",
    "figure-digits",
    "figure-shapes",
    "figure-hindi",
    "figure-forgetting",
    "figure-tdigits",
    "figure-resilience",
    "figure-revision",
    "figure-tsne",
    "figure-dreams",
    "figure-recog",
    "ablation-age",
    "ablation-kappa",
    "ablation-tdigits",
    "ablation-reconstruction",
    "ablation-ppr",
    "ablation-n-stm",
    "ablation-dual",
    "ablation-clipping",
    "deep-table",
    "deep-ablation",
    "deep-resilience",
]


def test_names_tables_and_figures_exist():
    assert list(TARGETS) == NAMES
    tables = Path(figures.__file__).with_name("tables.md").read_text(encoding="utf-8")
    for target in TARGETS.values():
        assert not target.figures or callable(getattr(figures, target.figures))
        assert not target.table or f"macro {target.table}(" in tables
        others = [name for name in NAMES if name != target.name]
        assert not any(name.startswith(target.name) for name in others), (
            "figures are found by prefix"
        )


@pytest.mark.parametrize("metric", ["acc", "bwt"])
def test_every_cell_of_the_paper_has_runs(metric):
    runs = TARGETS[f"table-{metric}"].runs
    cells = {(run.stream, run.algorithm) for run in runs if not run.changes()}
    for stream in ("digits", "permnist", "shapes", "hindi"):
        for name in ("nn", "dropnn", "ppr", "ewc", "dgr", "dgdmn"):
            assert paper.published(metric, name, stream) is not None
            assert (stream, name) in cells
        assert (stream, "joint") in cells


def test_a_run_is_parsed():
    spec = parse_run("tdigits dgdmn deep kappa_per=task sttm_generator_layers=128x64 beta=0.5")
    assert (spec.stream, spec.algorithm, spec.preset) == ("tdigits", "dgdmn", "deep")
    assert spec.options.sttm_generator_layers == (128, 64)
    assert spec.changes() == {
        "kappa_per": "task",
        "sttm_generator_layers": [128, 64],
        "beta": 0.5,
    }
    assert parse_run("permnist ewc revise=1x6").revise == (1, 6)
    assert parse_run("digits dgr together").together
    assert [run.name for run in parse_runs("digits {nn,dgr} {,age=n_total}")] == [
        "digits-nn-paper-seed0",
        "digits-nn-paper-age-n_total-seed0",
        "digits-dgr-paper-seed0",
        "digits-dgr-paper-age-n_total-seed0",
    ]


def test_seeds():
    for target in TARGETS.values():
        for run in target.runs:
            default = (
                {"permnist": 2, "tdigits": 1}.get(run.stream, 3) if run.preset == "paper" else 3
            )
            for given in (0, 5):
                found = [s.seed for s in target.specs(given) if parse_seed(s) == parse_seed(run)]
                assert found == list(range(1 if target.one_seed else given or default))


def parse_seed(spec):
    """A run without its seed."""
    return (spec.stream, spec.algorithm, spec.preset, spec.options, spec.revise, spec.together)


def test_the_ablation_of_deep_changes_one_option_at_a_time():
    runs = TARGETS["deep-ablation"].runs
    assert max(len(run.changes()) for run in runs) == 1
    for stream in ("digits", "hindi"):
        names = [
            n for r in runs if (r.stream, r.algorithm) == (stream, "dgdmn") for n in r.changes()
        ]
        assert len(names) == len(set(names)) == 10
    assert {run.preset for run in runs} == {"deep"}


def test_every_run_is_done_and_every_result_belongs_to_a_target(results):
    specs = unique(spec for target in TARGETS.values() for spec in target.specs(3))
    keys = {spec.key: spec for spec in specs}
    assert results.by_key.keys() <= keys.keys()
    assert all(run.name == keys[key].name for key, run in results.by_key.items())
    assert missing_runs(TARGETS.values(), 0, results, results) == []
    dreams = missing_runs(TARGETS.values(), 0, Results({}), results)
    assert {spec.name for spec in dreams} == {
        "digits-dgr-paper-together-seed0",
        "digits-dgdmn-paper-seed0",
    }, "images need the run directories"


def test_options_of_results_are_those_of_their_preset(results):
    """Runs may differ in options that their algorithm does not use."""
    specs = unique(spec for target in TARGETS.values() for spec in target.specs(3))
    keys = {spec.key: spec for spec in specs}
    for run in results.by_key.values():
        assert run.record.config["format"] == 2
        changed = {k: v for k, v in keys[run.key].changes().items() if not run.info.unused(k)}
        assert run.changes == changed


def test_select():
    assert select(["all"]) == list(TARGETS.values())
    assert [target.name for target in select(["figure-tsne", "table-acc", "figure-tsne"])] == [
        "figure-tsne",
        "table-acc",
    ]
    with pytest.raises(UsageError, match=r"no target 'table-ac' \(did you mean table-acc\?\)"):
        select(["table-ac"])


def test_goals(results):
    def check(text, least=1e-9, rivals="", measure="acc", found=results):
        others = parse_runs(rivals) if rivals else ()
        return Goal("", parse_run(text), others, measure, least).check(found)

    assert check("digits dgdmn", 0.818) == (".828 ± .009", "**reached** (3 seeds)")
    assert check("digits dgdmn", 0.829)[1] == "**not reached** (3 seeds)"
    ours, status = check("permnist dgdmn", rivals="permnist {nn,ewc}")
    assert (ours, status) == (".858 ± .003; EWC .710 ± .001", "**reached** (2 seeds)")
    assert check("permnist nn", rivals="permnist {ewc,dgr}")[1].startswith("**not reached**")
    ours, status = check("permnist dgdmn deep", -0.5, "permnist joint")
    assert status == "**reached** (2 seeds)", "one rival is compared on the same seeds"
    assert check("tdigits dgdmn", 3.3, "tdigits dgr", "speed")[1] == "**reached** (1 seed)"
    assert check("tdigits dgdmn", 9.9, "tdigits dgr", "speed")[1] == "**not reached** (1 seed)"
    assert check("digits dgdmn", found=Results({})) == ("–", "not measured yet")


def test_one_goal_of_26_is_not_reached(results):
    goals = [goal for target in TARGETS.values() for goal in target.goals]
    missed = [goal.text for goal in goals if "not" in goal.check(results)[1]]
    assert len(goals) == 26
    assert missed == ["DGDMN on TDigits: last 10 tasks ≥ .83"]
