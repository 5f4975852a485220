"""`dgdmn compare`: methods with options of their own, one table, and what a kill leaves to do."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import fmean, stdev
from types import SimpleNamespace

import pytest

from dgdmn.cli import compare as cli
from dgdmn.cli.options import VERBS, parse
from dgdmn.cli.run import make_specs
from dgdmn.config.entries import parse_entry
from dgdmn.core.errors import UsageError
from dgdmn.core.text import format_bytes, format_mean_sem
from dgdmn.records import find_runs
from dgdmn.report.table import Group, format_seconds

SMALL = ["--preset", "quick", "--samples-per-task", "12", "--min-steps", "2", "--jobs", "1"]
METHOD = "nn+learner_layers=8,4+learner_epochs=1"
OWN = """
from typing import Literal
from dataclasses import dataclass
from dgdmn import NN

@dataclass(eq=False, repr=False, kw_only=True)
class Mine(NN):
    kernel: Literal["none", "codes"] = "codes"
    draws: int | None = None
    power: float = 0.5
    whiten: bool = False
    label: str = "a"
    layers: tuple[int, ...] = ()
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module `mine` with an algorithm that has arguments of its own."""
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield "mine:Mine"
    sys.modules.pop("mine", None)


def summaries(directory):
    """The summary of each run directory, by its name."""
    paths = find_runs(directory).values()
    return {path.name: json.loads((path / "summary.json").read_text()) for path in paths}


def test_an_entry_has_fields_of_config_and_arguments_of_its_class(own):
    assert parse_entry("nn", "quick") == ("nn", "quick", {}, {})
    entry = parse_entry("dgdmn:paper+kappa=1e-1+predict_with=learner+prior+generator=vae", "quick")
    assert entry[:2] == ("dgdmn", "paper")
    assert entry.changes == {"kappa": 0.1, "predict_with": "learner+prior", "generator": "vae"}
    assert entry.arguments == {}
    assert parse_entry("dgr+generator=mixture", None)[2:] == ({"generator": "mixture"}, {})
    entry = parse_entry("dgr+generator=gan", None)
    assert entry[2:] == ({"generator": "vae"}, {"generator": "gan"}), "of another package"
    entry = parse_entry("gem+exemplars=20+learner_layers=8,4+learner_convolutions=none", None)
    assert entry.changes == {
        "exemplars": 20,
        "learner_layers": (8, 4),
        "learner_convolutions": (),
    }, "a field of Config is one, also if the class has an argument of that name"
    entry = parse_entry(f"{own}:paper+kernel=none+draws=3+power=1+whiten=true", None)
    assert (entry.algorithm, entry.preset) == (own, "paper")
    assert entry.arguments == {
        "kernel": "none",
        "draws": 3,
        "power": 1.0,
        "whiten": True,
    }
    assert isinstance(entry.arguments["power"], float)
    default = parse_entry(f"{own}+kernel=codes+draws=none+power=.5+label=a", None)
    assert default.arguments == {}, "a default is no other method"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("nope+x=1", "no algorithm 'nope'; there are nn"),
        ("nn:quik+min_steps=1", None),
        ("nn+lerner_layers=3", "no option 'lerner_layers' of nn (did you mean learner_layers?)"),
        (
            "mine:Mine+kernl=none",
            "no option 'kernl' of mine:Mine (did you mean kernel?); it has kernel",
        ),
        ("mine:Mine+layers=3", "no option 'layers' of mine:Mine"),
        ("mine:Mine+random_state=3", "no option 'random_state' of mine:Mine"),
        ("mine:Mine+kernel=all", "kernel is 'all'; it must be one of none, codes"),
        ("mine:Mine+draws=x", "draws is 'x'; it must be a whole number or one of none"),
        ("mine:Mine+power=nan", "power is 'nan'; it must be a number"),
        ("mine:Mine+whiten=yes", "whiten is 'yes'; it must be one of true, false"),
        ("er+exemplars=many", "exemplars is 'many'; it must be a whole number"),
        ("er+learner_layers=8;4", "learner_layers is '8;4'; it must be whole numbers with commas"),
        ("nn+exemplars=3", "exemplars has no effect on nn; leave it out"),
        ("nn+samples_per_task=3", "samples_per_task changes the data of all methods; use --samp"),
        ("nn+min_steps", "option 'min_steps' of nn has no value; write +min_steps=VALUE"),
        ("nn+min_steps=1+min_steps=2", "has min_steps twice; leave one out"),
    ],
)
def test_wrong_options_are_one_sentence(own, word, expected):
    if expected is None:  # the preset is looked up when the run is made
        assert parse_entry(word, None).preset == "quik"
        return
    with pytest.raises(UsageError) as error:
        parse_entry(word, None)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


def test_arguments_are_part_of_the_key_and_of_the_name(own, tmp_path):
    words = ["embedded", "--algorithm", own, f"{own}+kernel=none", f"{own}+label=a/b+whiten=true"]
    plain, none, both = make_specs(parse("dgdmn run", VERBS["run"], words))
    assert len({plain.key, none.key, both.key}) == 3
    assert none.name == "embedded-mine.Mine-best-kernel_none-seed0"
    assert both.name == "embedded-mine.Mine-best-label_a.b-whiten_True-seed0"
    same = make_specs(parse("dgdmn run", VERBS["run"], [*words[:2], f"{own}+kernel=codes"]))
    assert same == [plain]


def test_run_separates_variants_in_its_table(own, tmp_path, call, in_process, monkeypatch):
    monkeypatch.setattr("dgdmn.cli.run.write_report", lambda *_: None)
    words = ("run", "embedded", *SMALL, "--out", tmp_path / "runs", "--algorithm")
    out, _ = call(*words, own, f"{own}+kernel=none")
    assert re.search(r"│ mine:Mine +│ quick", out)
    assert "│ mine:Mine+kernel=none │ quick" in out
    config = tmp_path / "runs" / "embedded-mine.Mine-quick-min_steps-2-samples_per_task-12"
    config = Path(f"{config}-kernel_none-seed0") / "config.json"
    assert json.loads(config.read_text())["arguments"] == {"kernel": "none"}
    shown, _ = call(*words, f"{own}+kernel=none", "nn+learner_layers=8", "--show-config")
    assert 'algorithm = ["mine:Mine+kernel=none", "nn+learner_layers=8"]' in shown


def test_the_table_has_the_numbers_of_the_runs(tmp_path, call, in_process, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    words = ["compare", "embedded", *SMALL, "--seeds", "2", "--out", tmp_path / "runs"]
    words += ["--algorithms", METHOD, "er+exemplars=20", "joint"]
    out, _ = call(*words)
    lines = [re.split(" {2,}", line.strip()) for line in out.splitlines()]
    names = [
        "NN (learner_epochs 1, learner_layers 8 4)",
        "ER (exemplars 20)†",
        "Joint (all tasks together)‡",
    ]
    shown = {line[0]: line[1:] for line in lines if line[0] in names}
    assert list(shown) == names, "in the order of the command"
    assert ["Embedded digits"] in lines
    assert "† keeps training rows" in out
    found = summaries(tmp_path / "runs")
    groups = ["learner_layers-8.4-", "exemplars-20-", "joint-"]
    with (tmp_path / "runs" / "compare.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(groups)
    for name, part, row in zip(names, groups, table, strict=True):
        seeds = [one for directory, one in found.items() if part in directory]
        assert len(seeds) == 2
        one_row = part == "joint-"  # learned together, so nothing can be forgotten
        values = {key: [one[key] for one in seeds] for key in seeds[0]}
        assert shown[name] == [
            format_mean_sem(values["acc"]),
            format_mean_sem(values["macro_accuracy"]),
            "–" if one_row else format_mean_sem(values["bwt"]),
            format_seconds(values["train_cpu_seconds"]),
            format_seconds(values["evaluate_cpu_seconds"]),
            format_bytes(fmean(values["memory_bytes"])),
            "2",
        ]
        keys = [
            "acc",
            "row_accuracy",
            "macro_accuracy",
            "train_cpu_seconds",
            "evaluate_cpu_seconds",
        ]
        for key in (*keys, *([] if one_row else ["bwt"])):
            assert float(row[key]) == pytest.approx(fmean(values[key]))
            assert float(row[f"{key}_se"]) == pytest.approx(stdev(values[key]) / 2**0.5)
        assert min(values["evaluate_cpu_seconds"]) > 0
        assert (row["stream"], row["seeds"]) == ("embedded", "2")
    assert [row["stores_rows"] for row in table] == ["0", "1", "1"]
    assert [row["ceiling"] for row in table] == ["0", "0", "1"]
    markdown = (tmp_path / "runs" / "compare.md").read_text().splitlines()
    assert markdown[0].startswith("| stream | method | accuracy | macro | BWT | train CPU s |")
    assert f"**{format_bytes(float(table[0]['memory_bytes']))}**" in markdown[2]
    assert not any("**" in line for line in markdown if "†" in line or "‡" in line)
    # Finished runs are used, whatever their directories are called.
    joint = next(tmp_path.glob("runs/embedded-joint-*seed1"))
    joint.rename(tmp_path / "runs" / "renamed")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/summary.json")}
    assert len(before) == 6
    (tmp_path / "runs" / "compare.csv").unlink()
    again, err = call(*words, "--table", tmp_path / "new" / "a.tex", tmp_path / "b.md")
    assert (again.partition("table:")[0], err) == (out.partition("table:")[0], "")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (tmp_path / "b.md").read_text().splitlines() == markdown
    assert not (tmp_path / "runs" / "compare.csv").exists(), "--table replaces the default"
    tex = (tmp_path / "new" / "a.tex").read_text()
    assert "NN (learner\\_epochs 1, learner\\_layers 8 4) & " in tex
    assert "ER (exemplars 20)$^\\dagger$ & " in tex


def fake_group(name, numbers, **traits):
    """A group of two seeds with the same numbers."""
    info = SimpleNamespace(
        title=name, category=traits.get("category", ""), exemplars=traits.get("exemplars", False)
    )
    runs = [
        SimpleNamespace(
            algorithm="nn",
            preset="best",
            stream="x",
            seed=seed,
            info=info,
            changes={},
            options={},
            data={},
            revise=(),
            together=False,
            evaluate_on="test",
            complete=True,
            machine="m",
            note="",
            number=lambda number: numbers.get(number, float("nan")),
        )
        for seed in range(2)
    ]
    return Group(runs, {"preset best"})


def test_special_characters_are_escaped_in_every_format():
    nasty = r"a_b & 50% {x} #1 $y$ ~ ^ \end{tabular} | *c* <b>"
    table = {"own_stream": [fake_group(nasty, {"acc": 0.5, "bwt": -0.25})]}
    row = next(line for line in cli.to_tex(table).splitlines() if "50" in line)
    assert row == (
        r"own\_stream & a\_b \& 50\% \{x\} \#1 \$y\$ \textasciitilde{} \textasciicircum{} "
        r"\textbackslash{}end\{tabular\} $|$ *c* $<$b$>$ & \textbf{.500 $\pm$ .000} & "
        r"-- & \textbf{$-$.250 $\pm$ .000} & -- & -- & -- & 2 \\"
    )
    row = next(line for line in cli.to_markdown(table).splitlines() if "50%" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 10, "nine cells"
    assert r"\*c\* \<b>" in row
    (row,) = csv.DictReader(cli.to_csv(table).splitlines())
    assert (row["method"], row["acc"], row["train_cpu_seconds"]) == (nasty, "0.5", "")
    formula = {"x": [fake_group("=1+1", {})]}
    assert next(csv.DictReader(cli.to_csv(formula).splitlines()))["method"] == "'=1+1"


def test_bold_is_the_best_method_that_stores_no_rows():
    groups = [
        fake_group("low", {"acc": 0.6, "memory_bytes": 10.0, "train_cpu_seconds": 3.0}),
        fake_group("high", {"acc": 0.70001, "memory_bytes": 20.0}),
        fake_group("equal", {"acc": 0.7, "memory_bytes": 20.0}),
        fake_group("rows", {"acc": 0.9, "memory_bytes": 1.0, "exemplar_bytes": 1.0}),
        fake_group("registered", {"acc": 0.9}, exemplars=True),
        fake_group("all", {"acc": 0.95, "memory_bytes": 1.0}, category="ceiling"),
    ]
    best = {column.number: column.best_groups(groups) for column in cli.COLUMNS}
    names = {number: [group.name for group in found] for number, found in best.items()}
    assert names["acc"] == ["high", "equal"], "what looks equal is equally bold"
    assert (names["memory_bytes"], names["train_cpu_seconds"]) == (["low"], ["low"])
    assert names["bwt"] == []
    tex = cli.to_tex({"x": groups})
    assert r"rows$^\dagger$" in tex
    assert r"registered$^\dagger$" in tex
    assert r"all$^\ddagger$" in tex


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("embedded", "--algorithms is missing; name the methods to compare"),
        ("embeded --algorithms nn", "no stream or file 'embeded' (did you mean embedded?)"),
        ("embedded --algorithms joit", "no algorithm 'joit' (did you mean joint?)"),
        ("embedded --algorithms nn:quik", "no preset 'quik' (did you mean quick?)"),
        ("embedded --algorithms nn+min_stps=3", "no option 'min_stps' of nn (did you mean min_st"),
        ("embedded --algorithms nn --seeds 0", "--seeds is 0; it must be a whole number of at le"),
        ("embedded --algorithms nn --table t.pdf", "--table t.pdf must end with .csv, .md, .tex"),
        ("embedded --algorithms nn --table .", "--table . must end with .csv, .md, .tex"),
    ],
)
def test_wrong_usage_is_one_line(tmp_path, monkeypatch, refuse, words, expected):
    monkeypatch.chdir(tmp_path)
    assert expected in refuse("compare", *words.split())
    assert list(tmp_path.iterdir()) == []


def test_a_failed_method_leaves_the_table_of_the_others(tmp_path, call, in_process):
    words = ("compare", "embedded", *SMALL, "--seeds", "1", "--out", tmp_path)
    _, err = call(*words, "--algorithms", METHOD, "dgr+generator=vee", code=2)
    assert "no generator 'vee' (did you mean vae?)" in err
    with (tmp_path / "compare.csv").open(newline="") as file:
        assert [row["method"][:2] for row in csv.DictReader(file)] == ["NN"]


@pytest.mark.slow
def test_a_killed_compare_continues(tmp_path):
    """The real command line, killed after its first run: the second call does the rest only."""
    command = [sys.executable, "-m", "dgdmn.cli", "compare", "embedded", *SMALL, "--seeds", "3"]
    command += ["--algorithms", METHOD]
    settings = {"cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, **settings, env={**os.environ, "OMP_NUM_THREADS": "1"})
    runs, deadline = tmp_path / "runs", time.monotonic() + 60
    while not list(runs.glob("*/summary.json")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    finished = {path: path.read_bytes() for path in runs.glob("*/summary.json")}
    assert 1 <= len(finished) < 3
    assert not (runs / "compare.csv").exists()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert {path: path.read_bytes() for path in finished} == finished
    assert not any(path.parent.name in done.stderr for path in finished), "they are not repeated"
    assert len(list(runs.glob("*/summary.json"))) == 3
    with (runs / "compare.csv").open(newline="") as file:
        assert [row["seeds"] for row in csv.DictReader(file)] == ["3"]
