"""`dgdmn run … --algorithm nn dgdmn dgdmn:best`: each algorithm with its own preset, told apart to the end."""

import re
import subprocess
import sys
import tomllib

import pytest

from dgdmn.cli import run as cli
from dgdmn.cli.display import print_results
from dgdmn.errors import UsageError
from dgdmn.presets import as_dict, preset
from dgdmn.records import RunWriter

FOUR = ["--algorithm", "nn", "dgdmn", "dgdmn:best", "joint", "--preset", "paper"]


def specs(*words):
    return cli._specs(cli._parse(list(words)))


def test_a_preset_behind_a_colon_is_that_algorithms_own():
    made = specs("digits", *FOUR)
    assert [(spec.algorithm, spec.preset) for spec in made] == [
        ("nn", "paper"), ("dgdmn", "paper"), ("dgdmn", "best"), ("joint", "paper"),
    ]  # fmt: skip
    assert [spec.options for spec in made] == [preset(spec.preset, "digits") for spec in made]
    assert len({spec.name for spec in made}) == 4


def test_the_same_run_twice_is_one_run():
    assert [spec.name for spec in specs("digits", "--algorithm", "dgdmn", "dgdmn:paper")] == [
        "digits-dgdmn-paper-seed0"
    ]


def test_an_option_changes_every_run_and_no_option_that_was_not_given_does():
    for spec in specs("digits", *FOUR, "--kappa", "0.02", "--learner-layers=8", "9"):
        assert spec.changes() == {"kappa": 0.02, "learner_layers": [8, 9]}


def test_an_option_that_is_given_counts_where_it_is_what_another_preset_has_anyway():
    assert preset("paper", "digits").beta == 1
    assert preset("best", "digits").beta != 1
    _, paper, best, _ = specs("digits", *FOUR, "--beta", "1")
    assert paper.changes() == {}
    assert best.changes() == {"beta": 1}


def test_the_last_preset_given_is_the_one_whose_values_count():
    (spec,) = specs("digits", "--preset", "best", "--preset", "paper")
    assert (spec.preset, spec.options) == ("paper", preset("paper", "digits"))


def test_the_fallback_has_the_embedded_digits_presets_under_what_was_given(monkeypatch, nowhere, capsys):
    for name, value in nowhere.items():
        monkeypatch.setenv(name, value)
    rows = preset("paper", "digits").n_max
    assert preset("paper", "embedded").n_max != rows
    asked = cli._parse(["digits", *FOUR, "--fallback", "embedded", "--n-max", str(rows)])
    made = cli._specs(cli._with_data(asked))
    assert "running on the embedded digits instead" in capsys.readouterr().err
    assert [spec.dataset for spec in made] == ["embedded"] * 4
    for spec in made:
        assert spec.changes() == {"n_max": rows}, "given, though it is Digits' own"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("dgdmn:bst", r"no preset 'bst' \(did you mean best\?\)"),
        ("dgdm:best", r"no algorithm 'dgdm' \(did you mean dgdmn\?\)"),
        ("dgdmn:", "no preset ''; there are paper"),
        (":best", "no algorithm ''; there are nn"),
    ],
)
def test_a_wrong_name_or_preset_is_one_line(capsys, word, expected):
    with pytest.raises(UsageError, match=expected) as error:
        cli.main(["embedded", "--algorithm", "nn", word, "--show-config"])
    assert "\n" not in str(error.value)
    assert capsys.readouterr().out == ""


def test_show_config_has_a_table_for_each_preset(capsys):
    assert cli.main(["digits", *FOUR, "--kappa", "0.02", "--show-config"]) == 0
    shown = tomllib.loads(capsys.readouterr().out)
    assert shown["algorithm"] == ["nn:paper", "dgdmn:paper", "dgdmn:best", "joint:paper"]
    assert shown["preset"] == ["paper", "best"]
    for name in ("paper", "best"):
        assert shown["options"][name] == as_dict(preset(name, "digits")) | {"kappa": 0.02}
    assert specs("digits", "--algorithm", *shown["algorithm"]) == specs("digits", *FOUR), "words to type"


def test_show_config_of_one_preset_is_that_preset(capsys):
    assert cli.main(["digits", "--algorithm", "dgdmn:best", "--show-config"]) == 0
    shown = tomllib.loads(capsys.readouterr().out)
    assert (shown["algorithm"], shown["preset"]) == (["dgdmn"], "best")
    assert shown["options"] == as_dict(preset("best", "digits"))


def test_the_longest_come_first_where_some_must_wait():
    made = specs("digits", *FOUR)
    assert cli.ordered(made, jobs=4) is made
    first, second, third, last = cli.ordered(made, jobs=2)
    assert {first.name, second.name} == {"digits-dgdmn-paper-seed0", "digits-dgdmn-best-seed0"}
    assert (third.algorithm, last.algorithm) == ("joint", "nn")


def test_the_rows_are_told_apart(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    made = specs("digits", *FOUR, "--seed", "0", "1")
    for number, spec in enumerate(made):
        writer = RunWriter(tmp_path / spec.name, {"tasks": ["0", "1"]})
        writer.summary({"acc": number / 10, "bwt": 0.0, "acc_ltm": None, "seconds": 60.0})
    print_results(tmp_path, made)
    out = capsys.readouterr().out
    assert "digits, paper preset unless named, seeds 0, 1" in out
    assert re.findall(r"│ (\S.*?) +│ (\S+) ±", out) == [
        ("nn", "0.200"), ("dgdmn (paper)", "0.300"), ("dgdmn (best)", "0.400"), ("joint", "0.500"),
    ], "each the mean of its two seeds, as they were named"  # fmt: skip


def test_a_preset_is_named_only_where_there_are_several(tmp_path, capsys):
    (spec,) = specs("digits", "--algorithm", "dgdmn:best")
    writer = RunWriter(tmp_path / spec.name, {"tasks": ["0", "1"]})
    writer.summary({"acc": 0.9, "bwt": 0.0, "acc_ltm": None, "seconds": 60.0})
    print_results(tmp_path, [spec])
    out = capsys.readouterr().out
    assert "digits, best preset, seeds 0" in out
    assert "│ dgdmn     │ 0.900" in out


def test_the_longest_run_begins_where_there_are_more_runs_than_jobs():
    made = specs("embedded", *FOUR)
    assert [spec.algorithm for spec in cli.ordered(made, 2)][-1] == "nn"
    assert {spec.algorithm for spec in cli.ordered(made, 2)[:2]} == {"dgdmn"}
    assert cli.ordered(made, 4) == made


@pytest.mark.slow
def test_the_shorter_run_waits(tmp_path):
    small = ["--samples-per-task", "20", "--min-steps", "5", "--learner-epochs", "1", "--joint-epochs", "2"]
    words = ["--algorithm", "nn", "joint:best", "--preset", "quick", "--jobs", "1", "--threads", "1"]
    result = subprocess.run(
        [sys.executable, "-m", "dgdmn.cli", "run", "embedded", *words, *small],
        cwd=tmp_path, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    heard = ["-".join(line.split("-")[1:3]) for line in result.stderr.splitlines()]
    assert heard == ["joint-best"] * 10 + ["nn-quick"] * 10
    assert re.findall(r"^│ (\S.*?) +│", result.stdout, re.MULTILINE) == ["nn", "joint (best)"], "as named"
