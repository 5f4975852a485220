"""The part of the page on `best`: its targets, tables and figure, and what it says where runs are missing."""

import json
import math
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from dgdmn.experiments.catalogue import TARGETS, catalogued
from dgdmn.experiments.target import run_of
from dgdmn.records import RunRecord
from dgdmn.report.reproducibility import Section, draw, render
from dgdmn.report.reproducibility.beyond import best_goals, option_table, resilience_table, stream_tables
from dgdmn.report.reproducibility.beyond.aims import AIMS
from dgdmn.report.reproducibility.goals import missed
from dgdmn.report.reproducibility.numbers import Shelf, paired


def ending(last, tasks=10):
    """A matrix whose tasks are all known when learnt, and so well at the end."""
    matrix = np.eye(tasks)
    matrix[-1] = last
    return matrix


@pytest.fixture
def best(run_with):
    """`best(dataset, accuracies, …)`: a result of `best` for each accuracy, seeds from 0."""

    def make(dataset, accuracies, algorithm="dgdmn", tasks=10, **config):
        return [
            run_with(dataset, algorithm, seed, ending(one, tasks), **{"preset": "best", **config})
            for seed, one in enumerate(accuracies)
        ]

    return make


def told(results, stream):
    (one,) = [
        goal for goal in best_goals(Shelf(tuple(results))) if goal.what.startswith(f"`best` on {stream}:")
    ]
    return str(one)


def row(text, name):
    """The cells of the first line of that name."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_the_papers_best_numbers_are_those_of_the_issue():
    assert {aim.stream: aim.published() for aim in AIMS} == {
        "Digits": ".818 (DGDMN)",
        "Split Digits": "–",
        "Permnist": ".861 (DGR)",
        "Hindi": ".731 (DGR)",
        "Shapes": ".722 (DGDMN, on full data)",
        "TDigits, last 10 tasks": ".833 (DGDMN)",
        "TDigits, all 40 tasks": ".431 (DGDMN)",
        "Digits without descriptors": ".766 (DGDMN-recog)",
    }
    assert [aim.target for aim in AIMS] == [".955", ".96", ".95", ".95", "Joint − .04", ".90", ".82", ".94"]


def test_a_target_asks_for_three_seeds(best):
    assert told([], "Digits") == "not measured yet"
    assert told(best("digits", [0.96]), "Digits") == "reached so far (1 of 3 seeds)"
    assert told(best("digits", [0.96, 0.96, 0.96]), "Digits") == "**reached** (3 seeds)"
    assert told(best("digits", [0.96, 0.96, 0.90]), "Digits") == "**not reached** (3 seeds)"
    assert told(best("digits", [0.99] * 3, preset="paper"), "Digits") == "not measured yet", "another preset"


def test_shapes_are_compared_with_joint_on_the_same_data(best):
    mine = best("shapes", [0.60, 0.70, 0.80], tasks=6)
    assert told(mine, "Shapes") == "not measured yet", "there is no Joint"
    near = best("shapes", [0.64, 0.74, 0.83], "joint", 6, preset="paper")
    assert told([*mine, *near], "Shapes") == "**reached** (3 seeds)"
    assert told([*mine, *near[:1]], "Shapes") == "reached so far (1 of 3 seeds)", "the same seeds only"
    far = best("shapes", [0.65, 0.75, 0.85], "joint", 6, preset="paper")
    assert told([*mine, *far], "Shapes") == "**not reached** (3 seeds)"


def test_the_long_stream_has_two_targets(best):
    last = [0.5] * 30 + [0.95] * 10
    results = best("tdigits", [last, last, last], tasks=40)
    assert told(results, "TDigits, last 10 tasks") == "**reached** (3 seeds)"
    assert told(results, "TDigits, all 40 tasks") == "**not reached** (3 seeds)"
    missing = missed(best_goals(Shelf(tuple(results))))
    assert (
        "- `best` on TDigits, all 40 tasks: ACC ≥ .82; seed by seed .613, .613, .613. Not explained"
        in missing
    )
    assert "last 10" not in missing


def test_a_stream_has_a_line_with_everything_beside_it(best):
    results = [
        *best("digits", [0.96, 0.97, 0.98], seconds=90.0, kept=6_000_000),
        *best("digits", [0.80, 0.82], preset="paper", seconds=100.0, kept=5_000_000),
        *best("digits", [0.99], "joint", preset="paper"),
    ]
    text = stream_tables(Shelf(tuple(results)))
    assert row(text, "Digits") == [
        "Digits", ".810 ± .010 (2)", ".818 (DGDMN)", "**.970 ± .006 (3)**", "−.030 ± .006 (3)", ".990 (1)", "≥ .955",
        "**reached** (3 seeds)",
    ]  # fmt: skip
    assert row(text, "Hindi") == [
        "Hindi", "not run yet", ".731 (DGR)", "not run yet", "–", "not run yet", "≥ .95", "not measured yet",
    ]  # fmt: skip
    costs = text.split("\n\n")[1]
    assert row(costs, "Digits") == ["Digits", "90 s", "100 s", "0.90 × (2; wall clock)", "6.0 MB", "5.0 MB"]
    assert row(costs, "TDigits") == ["TDigits", "not run yet", "not run yet", "–", "–", "–"]
    assert "cores were shared" in text


def test_bytes_of_a_dual_memory_without_its_task_memories_are_left_out(run_with):
    """So they were once counted, when a summary did not have the steps trained yet."""
    one = run_with("digits", "dgdmn", 0, ending(0.9), kept=5_000_000)
    assert one.run.memory_bytes == 5_000_000
    older = {key: value for key, value in one.run.record.summary.items() if key != "steps_trained"}
    run = replace(one.run, record=replace(one.run.record, summary=older))
    assert math.isnan(run.memory_bytes)
    assert replace(run, algorithm="dgr").memory_bytes == 5_000_000, "it has no task memories"
    costs = stream_tables(Shelf((replace(one, run=run),))).split("\n\n")[1]
    assert row(costs, "Digits")[-1] == "–"


def test_time_is_compared_on_the_seeds_that_both_have(run_with):
    mine = [
        run_with("digits", "dgdmn", seed, ending(0.9), seconds=100.0 * seed, preset="best") for seed in (1, 2)
    ]
    theirs = [run_with("digits", "dgdmn", seed, ending(0.9), seconds=400.0) for seed in (2, 3)]
    costs = stream_tables(Shelf((*mine, *theirs))).split("\n\n")[1]
    assert row(costs, "Digits")[1:4] == ["200 s", "400 s", "0.50 × (1; wall clock)"]
    assert [one.run.seed for found in paired(mine, theirs) for one in found] == [2, 2]
    apart = stream_tables(Shelf((mine[0], theirs[0]))).split("\n\n")[1]
    assert row(apart, "Digits")[1:4] == ["100 s", "400 s", "–"]


def test_the_ablation_has_a_line_for_each_option_and_both_streams(best):
    results = [
        *best("digits", [0.96, 0.90], kept=9_000_000),
        *best("digits", [0.86], changes={"index": "none"}, seconds=50.0, kept=5_000_000),
        *best("digits", [0.95], changes={"beta": 1.0}),
        *best("hindi", [0.95]),
        *best("hindi", [0.96], changes={"beta": 1.0}),
        *best("digits", [0.94], "dgdmn-recog"),
        *best("digits", [0.80], "dgdmn-recog", changes={"recognition": "reconstruction"}),
    ]
    text = option_table(results)
    names = [line.split("|")[1].strip() for line in text.splitlines()[2:-2]]
    assert names == [
        "`best`", "`index` none", "`beta` 1.0", "`best`, without descriptors",
        "`recognition` reconstruction, without descriptors",
    ]  # fmt: skip
    assert row(text, "`best`")[1:6] == [".930 ± .030 (2)", "−.070 ± .030 (2)", "–", "100 s", "9.0 MB"]
    index = [".860 (1)", "−.140 (1)", "−.100", "50 s", "5.0 MB", "not run yet", *"––––"]
    assert row(text, "`index` none")[1:] == index
    assert row(text, "`beta` 1.0")[6:] == [".960 (1)", "−.040 (1)", "+.010", "100 s", "1.0 MB"]
    assert row(text, names[-1])[1:] == [".800 (1)", "−.200 (1)", "−.140", "100 s", "1.0 MB", *"–––––"]
    assert option_table([]) == "Not run yet."
    assert option_table(best("digits", [0.9], preset="paper")) == "Not run yet."


SPOILT = {
    "noise": [0.0, 0.3], "noise_accuracy": [0.9, 0.2], "noise_accuracy_unclipped": [0.9, 0.8],
    "occlusion": [0.28], "occlusion_accuracy": [0.7],
}  # fmt: skip


def joint_memory(run_with, algorithm, preset):
    return run_with("digits", algorithm, 0, [[0.9] * 10], resilience=SPOILT, together=True, preset=preset)


def test_resilience_of_best_stands_beside_the_papers(run_with, tmp_path):
    paper = [joint_memory(run_with, name, "paper") for name in ("dgr", "joint")]
    text = resilience_table(Shelf(tuple(paper)))
    assert row(text, "occlusion .28")[1:] == ["not run yet", ".700 (1)", ".700 (1)", ".748"]
    assert row(text, "noise of sd .3, clipped")[1:] == ["not run yet", ".200 (1)", ".200 (1)", "–"]
    assert draw("beyond-resilience", paper, [], tmp_path) == [], "nothing new to draw"
    results = [*paper, joint_memory(run_with, "dgr", "best")]
    assert row(resilience_table(Shelf(tuple(results))), "noise of sd .3, not clipped")[1] == ".800 (1)"
    (file,) = draw("beyond-resilience", results, [], tmp_path)
    assert file.name == "beyond-resilience.svg"
    assert ET.parse(file).getroot().tag.endswith("svg")
    without = draw("figure-resilience", results, [], tmp_path)[0]
    assert file.read_bytes() != without.read_bytes(), "a line more"


def test_resilience_in_sequence_has_a_line_for_each_option(best):
    weaker = SPOILT | {"noise_accuracy_unclipped": [0.9, 0.5]}
    results = [
        *best("digits", [0.8], preset="paper", resilience=SPOILT),
        *best("digits", [0.96, 0.97], resilience=SPOILT),
    ]
    before = resilience_table(Shelf(tuple(results)))
    assert "each option changed alone" not in before, "no option was changed"
    assert row(before, "Digits")[1:] == [
        ".800 (1)", ".800 ± .000 (2)", ".200 (1)", ".200 ± .000 (2)", ".700 (1)", ".700 ± .000 (2)",
    ]  # fmt: skip
    assert row(before, "Hindi")[1:] == ["–"] * 6
    results += [
        *best("digits", [0.95], changes={"beta": 1.0}, resilience=weaker),
        *best("digits", [0.95], "dgdmn-recog", changes={"recognition": "reconstruction"}, resilience=weaker),
    ]
    text = resilience_table(Shelf(tuple(results)))
    assert row(text, "`best`")[1:] == [".800 ± .000 (2)", ".700 ± .000 (2)", "–", "–"]
    assert row(text, "`beta` 1.0")[1:] == [".500 (1)", ".700 (1)", "–", "–"]
    assert "recognition" not in text, "without descriptors it is another question"


def test_the_page_has_a_part_for_it(best):
    results = best("digits", [0.96])
    sections = [
        Section("beyond-table", "`best`", tuple(results), 2, ()),
        Section("beyond-ablation", "each option", (), 2, ()),
        Section("beyond-resilience", "noise", (), 1, (), "Not drawn yet."),
        Section("ablation-x", "a try", (), 0, ()),
    ]
    text = render(sections, results, [], "")
    part = text[text.index("\n## Beyond the paper\n") : text.index("\n## Deviations\n")]
    assert all(f"\n### {section.name}\n" in part for section in sections[:3])
    assert text.index("\n## ablation-x\n") < text.index("\n## Beyond the paper\n")
    assert "`dgdmn reproduce beyond-ablation`: no run done, 2 runs still to be done.\n\nNot run yet." in part
    assert part.rstrip().endswith("Not drawn yet.")
    assert "| `best` on Digits: ACC ≥ .955 | .960 (1) | reached so far (1 of 3 seeds) |" in text
    assert "--preset best --seed 0" in text, "the command of each run"
    assert "All runs have the `paper` preset" not in text


def test_a_run_of_best_is_collected_for_its_targets(tmp_path):
    """By the same rules as any: the catalogue knows it by all that decides it, and whatever its seed."""
    spec = run_of("hindi", "dgdmn", "best", beta=1.0)
    directory = tmp_path / spec.name.replace("seed0", "seed4")
    directory.mkdir()
    config = {**spec.identity(), "seed": 4, "tasks": ["a", "b"]}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "accuracy.csv").write_text("step,after,a,b\n1,a,1.0,0.0\n2,b,0.5,1.0\n")
    (directory / "summary.json").write_text(json.dumps({"done": True, "seconds": 10.0}))
    assert catalogued(RunRecord.read(directory), TARGETS.values()) == ["beyond-ablation"]
    plain = config | {"options": config["options"] | {"momentum": 0.1}}
    (directory / "config.json").write_text(json.dumps(plain))
    assert catalogued(RunRecord.read(directory), TARGETS.values()) == []
