"""The catalogue: every number of the paper has its runs, every run is what it says, and its time is told."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgdmn import paper, presets
from dgdmn.algorithms import ALGORITHMS, algorithm
from dgdmn.errors import UsageError
from dgdmn.experiments import forecast
from dgdmn.experiments.beyond import OTHERWISE, STREAMS
from dgdmn.experiments.catalogue import (
    EQUAL_TIME,
    TARGETS,
    catalogued,
    chosen,
    result,
)
from dgdmn.experiments.plan import planned_epochs
from dgdmn.experiments.spec import RunSpec, differing
from dgdmn.experiments.target import SEEDS, Target, run_of, unique
from dgdmn.memory.replay import allocate
from dgdmn.presets.lookup import NO_SHORT_TERM
from dgdmn.records import RunRecord

NAMES = [
    *("table-acc", "table-bwt"),
    *(
        "figure-permnist",
        "figure-digits",
        "figure-shapes",
        "figure-hindi",
        "figure-forgetting",
        "figure-tdigits",
    ),
    *("figure-resilience", "figure-revision", "figure-tsne", "figure-dreams", "figure-recog"),
    *("ablation-age", "ablation-kappa", "ablation-tdigits", "ablation-reconstruction"),
    *("ablation-ppr", "ablation-n-stm", "ablation-dual", "ablation-clipping"),
    *("beyond-table", "beyond-ablation", "beyond-resilience"),
]


def everything():
    return unique(spec for target in TARGETS.values() for spec in target.specs())


def test_the_targets_are_those_of_the_issue_and_two_of_ours():
    """`ablation-tdigits` and `ablation-clipping`: what the paper's text leaves open."""
    assert list(TARGETS) == NAMES
    assert all(name == target.name for name, target in TARGETS.items())


@pytest.mark.parametrize("metric", ["acc", "bwt"])
def test_every_cell_of_the_papers_tables_is_covered(metric):
    cells = {(dataset, name) for name, row in paper.table(metric).items() for dataset in row}
    runs = TARGETS[f"table-{metric}"].runs
    plain = {(run.dataset, run.algorithm) for run in runs if not run.changes()}
    assert cells <= plain
    assert {(dataset, "joint") for dataset, _ in cells} <= plain, "the ceiling too"


def test_what_the_text_gives_numbers_for_is_covered():
    assert paper.published("dgdmn-recog", "digits")
    assert "digits-dgdmn-recog-paper-seed0" in {run.name for run in TARGETS["figure-recog"].runs}
    assert {run.algorithm for run in TARGETS["figure-tdigits"].runs} == set(paper.tdigits_seconds())


def test_every_run_is_valid_and_on_one_thread():
    for spec in everything():
        assert (spec.threads, spec.evaluate_on, spec.device) == (1, "test", "cpu")
        assert spec.algorithm in ALGORITHMS
        assert replace(spec.trained_with()) == spec.trained_with(), "its options pass their checks"
        assert differing(spec, spec.identity()).keys() == set()


def test_a_name_is_a_computation():
    by_name = {}
    for target in TARGETS.values():
        for spec in target.specs():
            assert by_name.setdefault(spec.name, spec) == spec
    identities = [json.dumps(spec.identity(), sort_keys=True) for spec in by_name.values()]
    assert len(set(identities)) == len(identities), "no run is done twice under two names"


def test_the_papers_targets_have_its_preset_and_only_those_beyond_it_another():
    presets_of = {name: {run.preset for run in target.runs} for name, target in TARGETS.items()}
    beyond = {name for name, found in presets_of.items() if found != {"paper"}}
    assert beyond == {"beyond-table", "beyond-ablation", "beyond-resilience"}
    assert set.union(*presets_of.values()) == {"paper", "best"}


def test_seeds():
    assert SEEDS == {"digits": 3, "split-digits": 3, "shapes": 3, "hindi": 3, "permnist": 2, "tdigits": 1}
    for target in TARGETS.values():
        for run in target.runs:
            mine = [s.seed for s in target.specs() if replace(s, seed=0) == run]
            default = 3 if run.preset == "best" else SEEDS[run.dataset]
            assert mine == list(range(1 if target.one else default))
            more = [s.seed for s in target.specs(5) if replace(s, seed=0) == run]
            assert more == list(range(1 if target.one else 5))


def test_best_stands_beside_paper_and_joint_on_every_stream():
    runs = {(run.dataset, run.algorithm, run.preset) for run in TARGETS["beyond-table"].runs}
    for dataset in STREAMS:
        compared = {("dgdmn", "best"), ("dgdmn", "paper"), ("joint", "paper")}
        assert compared <= {(name, preset) for stream, name, preset in runs if stream == dataset}
    assert ("digits", "dgdmn-recog", "best") in runs
    papers = {run.name for name, target in TARGETS.items() if "beyond" not in name for run in target.runs}
    shared = {run.name for run in TARGETS["beyond-resilience"].runs if run.preset == "paper"}
    assert shared <= papers, "the paper's runs are done once"


def test_the_ablation_changes_one_option_at_a_time_and_has_what_it_is_compared_with():
    runs = TARGETS["beyond-ablation"].runs
    assert len({run.name for run in runs}) == len(runs)
    assert max(len(run.changes()) for run in runs) == 1
    for dataset in ("digits", "hindi"):
        mine = [run for run in runs if (run.dataset, run.algorithm) == (dataset, "dgdmn")]
        best = presets.as_dict(presets.preset("best", dataset))
        changed = [next(iter(way)) for way in OTHERWISE if best[next(iter(way))] != next(iter(way.values()))]
        assert [name for run in mine for name in run.changes()] == changed
        assert run_of(dataset, "dgdmn", "best") in mine
    recog = [run.changes() for run in runs if run.algorithm == "dgdmn-recog"]
    assert recog == [{}, {"recognition": "reconstruction"}]


def test_an_option_that_came_later_was_off_whatever_best_says_now():
    spec = run_of("digits", "dgdmn", "best")
    config = spec.identity()
    older = {**config, "options": {key: value for key, value in config["options"].items() if key != "index"}}
    assert config["options"]["index"] == "codes"
    assert differing(spec, older).keys() == {"index"}
    assert differing(run_of("digits", "dgdmn", "best", index="none"), older).keys() == set()


def test_equal_time_is_equal_by_the_plan():
    dual, single = run_of("digits", "dgdmn"), run_of("digits", "dgr", **EQUAL_TIME)
    assert forecast.work(single) / forecast.work(dual) == pytest.approx(1, abs=0.02)
    assert single in TARGETS["ablation-dual"].runs
    more = run_of("digits", "dgr", generator_epochs=16, learner_epochs=4)
    assert forecast.work(more) > 1.05 * forecast.work(dual), "one epoch more is too many"


def test_kappa_for_a_replay_never_binds_on_tdigits():
    """docs/reproduce.md says so: smaller κ would be the same runs again. A hundredth of the rows."""
    tasks = [(str(i), np.full(60, i)) for i in range(40)]
    options = presets.overridden(presets.preset("paper", "tdigits"), {"n_max": 1_200, "kappa_per": "replay"})

    def samples(**changes):
        changed = presets.overridden(options, changes)
        return [e.samples for e in planned_epochs("dgdmn", changed, tasks, (28, 28)) if e.memory == "ltm"]

    assert samples(kappa=0.0) == samples() == samples(kappa=0.125)
    assert samples(kappa_per="task") == samples(), "N_max binds, so only the shares in it change"
    assert allocate(30_000, 210_000, 120_000, 0.05)[0] == 15_000
    assert allocate(30_000, 210_000, 120_000, 5 * 0.05)[0] == 30_000


def test_choosing():
    assert chosen(["all"]) == list(TARGETS.values())
    assert [target.name for target in chosen(["figure-tsne", "table-acc", "figure-tsne"])] == [
        "figure-tsne",
        "table-acc",
    ]
    with pytest.raises(UsageError, match=r"no target 'table-ac' \(did you mean table-acc\?\)"):
        chosen(["table-acc", "table-ac"])


@pytest.mark.parametrize("name", NO_SHORT_TERM)
def test_without_a_short_term_memory_its_sizes_decide_nothing(name):
    options = algorithm(name)._get_param_names()
    assert not [option for option in options if option.startswith("sttm_") or option == "n_stm"]
    spec = run_of("digits", name)
    config = {**spec.identity(), "options": {**spec.identity()["options"], "sttm_learner_layers": [24, 24]}}
    assert differing(spec, config).keys() == set()
    dual = run_of("digits", "dgdmn")
    assert differing(dual, {**config, "algorithm": "dgdmn"}).keys() == {"sttm_learner_layers"}


@given(st.sampled_from(everything()), st.data())
def test_any_option_that_differs_is_named_and_a_missing_one_is_the_default(spec, data):
    config = spec.identity()
    options = dict(config["options"])
    name = data.draw(st.sampled_from(sorted(options)))
    lacking = {**config, "options": {key: value for key, value in options.items() if key != name}}
    idle = spec.algorithm in NO_SHORT_TERM and (name.startswith("sttm_") or name in ("n_stm", "kappa_per"))
    off = presets.as_dict(presets.preset("paper", spec.dataset))[name]
    assert differing(spec, lacking).keys() == (set() if idle or options[name] == off else {name})
    other = {**config, "options": {**options, name: "something else"}}
    assert differing(spec, other).keys() == (set() if idle else {name})


@pytest.fixture
def recorded(tmp_path):
    """`recorded(spec, …)` writes a run directory as small as can be."""

    def write(spec, done=True, **changed):
        directory = tmp_path / spec.name
        directory.mkdir(parents=True)
        config = {**spec.identity(), "tasks": ["a", "b"], **changed}
        (directory / "config.json").write_text(json.dumps(config))
        (directory / "accuracy.csv").write_text("step,after,a,b\n1,a,1.0,0.0\n2,b,0.5,1.0\n")
        (directory / "summary.json").write_text(json.dumps({"done": done, "seconds": 10.0}))
        return RunRecord.read(directory)

    return write


def test_a_result_is_complete_and_the_same_computation(recorded, tmp_path):
    good, unfinished, other = (run_of("digits", name) for name in ("nn", "ewc", "dgdmn"))
    recorded(good)
    recorded(unfinished, done=False)
    recorded(other, evaluate_on="validation")
    assert result(good, tmp_path).complete
    assert result(unfinished, tmp_path) is None
    assert result(other, tmp_path) is None
    assert result(replace(good, seed=1), tmp_path) is None


def test_a_record_knows_its_targets_whatever_its_seed(recorded):
    seventh = recorded(replace(run_of("digits", "dgdmn"), seed=7))
    assert {"table-acc", "figure-tsne", "ablation-dual"} <= set(catalogued(seventh, TARGETS.values()))
    assert catalogued(recorded(run_of("digits", "er")), TARGETS.values()) == []
    renamed = RunRecord.read(seventh.directory.rename(seventh.directory.with_name("another")))
    assert catalogued(renamed, TARGETS.values()) == []


def small(name, **changes):
    few = {"samples_per_task": 20, "generator_epochs": 2, "min_steps": 0, "generator_layers": (8,), **changes}
    return RunSpec("embedded", name, "quick", presets.overridden(presets.preset("quick", "embedded"), few))


def test_a_forecast_is_what_it_took_before():
    runs = small("dgdmn"), small("nn"), replace(small("dgdmn"), seed=3)
    told = forecast.seconds(runs, {runs[0]: 40.0, replace(runs[0], seed=1): 60.0, runs[1]: 2.0})
    assert told == {runs[0].name: 50.0, runs[1].name: 2.0, runs[2].name: 50.0}


def test_a_forecast_scales_with_the_work_of_its_likes():
    done, twice = small("dgdmn"), small("dgdmn", generator_epochs=4, learner_epochs=12)
    told = forecast.seconds([twice], {done: 30.0})[twice.name]
    assert told == pytest.approx(30 * forecast.work(twice) / forecast.work(done))
    assert told == pytest.approx(60)


def test_a_forecast_knows_presets_apart():
    """`best` decodes for each visit, and its networks have other sizes: what `paper` took says nothing of it."""
    done, other = small("dgdmn"), run_of("embedded", "dgdmn", samples_per_task=20)
    assert forecast.seconds([other], {done: 1e9})[other.name] < 1e6


def test_a_forecast_of_something_new_is_timed():
    told = forecast.seconds([small("nn"), small("joint")], {})
    assert 0 < told[small("nn").name] < told[small("joint").name] < 60


def test_the_longest_come_first():
    runs = [small("nn"), small("dgdmn"), small("joint")]
    assert [run.algorithm for run in forecast.longest_first(runs)] == ["dgdmn", "joint", "nn"]


def test_a_target_may_be_anyones():
    mine = Target("mine", "a try", (small("nn"),))
    assert [spec.seed for spec in mine.specs()] == [0]
    assert [spec.seed for spec in mine.specs(2)] == [0, 1]
