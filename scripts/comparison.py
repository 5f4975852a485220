"""Collect finished runs into results/comparison and write docs/comparison.md from them.

    python scripts/comparison.py [RUNS…]

Without directories of runs, only the page is written again.
"""

import shutil
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from dgdmn.config.registry import STREAMS, algorithm_info
from dgdmn.core.text import format_bytes, format_ratio
from dgdmn.report.load import Run, load_runs

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "comparison", ROOT / "docs" / "comparison.md"
FILES = ("summary.json", "accuracy.csv", "accuracy_ltm.csv", "config.json")
MARK = "<!-- table: written by python scripts/comparison.py -->"


def collect(directories: list[Path]) -> None:
    """Copy the small files of every complete run."""
    for path in (
        one for directory in directories for one in sorted(directory.glob("*/summary.json"))
    ):
        place = RESULTS / path.parent.name
        place.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            if (path.parent / name).exists():
                shutil.copyfile(path.parent / name, place / name)


def method(run: Run) -> str:
    """What a row of the table is called; seeds of a code are seeds."""
    info = algorithm_info(run.algorithm)
    changes = {key: value for key, value in run.changes.items() if key != "code_seed"}
    preset = f" `{run.preset}`" if info.generative or info.exemplars else ""
    options = (
        f" ({', '.join(f'{key} {value}' for key, value in changes.items())})" if changes else ""
    )
    mark = "‡" if info.category == "ceiling" else "†" if info.exemplars else ""
    return f"{info.title}{preset}{options}{mark}"


def mean_se(values: list[float]) -> str:
    text = format_ratio(statistics.fmean(values))
    if len(values) < 2:
        return text
    return f"{text} ± {format_ratio(statistics.stdev(values) / len(values) ** 0.5)}"


def table() -> str:
    """One table for each stream, best accuracy first; ceilings and methods that keep rows are marked."""
    runs, problems = load_runs(path.parent for path in sorted(RESULTS.glob("*/config.json")))
    assert not problems, problems
    streams: dict[str, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        streams[run.stream][method(run)].append(run)
    lines = []
    for name in (one for one in STREAMS if one in streams):
        lines += [f"### {STREAMS[name].title}", ""]
        lines += ["| method | accuracy | rows right | BWT | train CPU s | bytes | seeds |"]
        lines += ["|---|--:|--:|--:|--:|--:|--:|"]
        groups = sorted(
            streams[name].items(), key=lambda one: -statistics.fmean(r.acc for r in one[1])
        )
        for title, group in groups:
            bwt = [run.number("bwt") for run in group]
            cells = [
                f"**{title}**" if title.startswith("DGDMN `best`") else title,
                mean_se([run.acc for run in group]),
                format_ratio(statistics.fmean(run.number("row_accuracy") for run in group)),
                format_ratio(statistics.fmean(bwt)) if all(b == b for b in bwt) else "–",
                f"{statistics.fmean(run.number('train_cpu_seconds') for run in group):.1f}",
                format_bytes(statistics.fmean(run.number("memory_bytes") for run in group)),
                str(len(group)),
            ]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def write_page() -> None:
    """Replace the tables of the page."""
    head = PAGE.read_text("utf-8").partition(MARK)[0]
    PAGE.write_text(f"{head}{MARK}\n\n{table()}", "utf-8")


if __name__ == "__main__":
    collect([Path(word) for word in sys.argv[1:]])
    write_page()
