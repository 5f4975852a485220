"""The command on the page really makes the run again: the command line itself reads it."""

import shlex

import pytest

from dgdmn.cli.run import _parse, _specs
from dgdmn.experiments.spec import RunSpec
from dgdmn.presets import as_dict, overridden, preset
from dgdmn.report.entries import datasets
from dgdmn.report.runs import read_runs
from dgdmn.report.sections.configuration import command, configuration

SPECS = [
    RunSpec("digits", "dgdmn", "paper", preset("paper", "digits"), 3),
    RunSpec("permnist", "ewc", "paper", preset("paper", "permnist"), revise=(1, 6)),
    RunSpec("embedded", "nn", "quick", preset("quick", "embedded"), evaluate_on="validation"),
    RunSpec("digits", "dgr", "paper", preset("paper", "digits"), together=True),
    RunSpec("digits", "dgdmn-recog", "paper",
            overridden(preset("paper", "digits"), {"kappa": 0.05, "learner_layers": (8, 8), "age": "letter"})),
]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS, ids=[spec.name for spec in SPECS])
def test_the_command_line_reads_the_command_back(make_run, spec):
    path = make_run(
        "r", algorithm=spec.algorithm, dataset=spec.dataset, preset=spec.preset, seed=spec.seed,
        evaluate_on=spec.evaluate_on, revise=list(spec.revise), together=spec.together, tasks=6,
        changes=spec.changes(), options=as_dict(spec.options), artefacts="none",
    )  # fmt: skip
    ((run,), _) = read_runs([path])
    program, verb, *words = shlex.split(command(run))
    assert (program, verb) == ("dgdmn", "run")
    (made,) = _specs(_parse(words))
    assert made.identity() == spec.identity()


def test_a_device_that_is_not_the_default_is_told(make_run):
    (run, other), _ = read_runs([make_run("a", device="cuda:1"), make_run("b", device="cpu")])
    assert command(run).endswith("--device cuda:1")
    assert "--device" not in command(other)


def test_a_nasty_name_is_one_word(make_run):
    ((run,), _) = read_runs([make_run("r", preset="$(rm -rf ~); `x`")])
    assert shlex.split(command(run))[6] == "$(rm -rf ~); `x`"


def test_what_differs_and_what_is_shared(make_run):
    paths = [make_run("a", seed=0), make_run("b", seed=1, threads=2, note="mind this")]
    (dataset,) = datasets(read_runs(paths)[0])
    found = configuration(dataset)
    assert found.differences.fields == ("seed", "threads")
    assert found.differences.rows == (("a", ("0", "1")), ("b", ("1", "2")))
    assert ("dataset", "digits") in found.same
    assert ("versions.dgdmn", "0.1.0") in found.same
    assert found.notes == ("mind this",)
