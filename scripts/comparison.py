"""Collect finished runs into results/comparison and write docs/comparison.md from them.

    python scripts/comparison.py [RUNS…]

Without directories of runs, only the page is written again.
"""

import itertools
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
FIGURE = ROOT / "results" / "figures" / "comparison.svg"
DRAWN = ("digits", "fashion", "clinc150")
BEST = "DGDMN `best`"
EQUAL_BYTES = 10_000_000
"""Most bytes of a rival in the overview: `best` has 8 MB, and Ridge grows with the classes."""
Methods = dict[str, list[Run]]
README = ROOT / "README.md"
README_STREAMS = (
    "digits",
    "hindi",
    "devanagari",
    "fashion",
    "hapt",
    "clinc150",
    "cifar100-features",
    "kdd99",
)
MARK = "<!-- table: written by python scripts/comparison.py -->"

END = "<!-- end of table -->"


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
    has_preset = info.generative or info.exemplars or run.algorithm == "joint"
    preset = f" `{run.preset}`" if has_preset else ""
    options = (
        f" ({', '.join(f'{key} {value}' for key, value in changes.items())})" if changes else ""
    )
    mark = "‡" if info.category == "ceiling" else "†" if info.exemplars else ""
    return f"{info.title}{preset}{options}{mark}"


def read() -> dict[str, Methods]:
    """The runs of each stream by method, in the order of the registry. Those of the reproduction belong to it."""
    paths = sorted(RESULTS.glob("*/config.json"))
    paths += [
        path
        for name, preset in itertools.product(("dgdmn", "joint"), ("paper", "deep"))
        for path in sorted(RESULTS.parent.glob(f"*-{name}-{preset}-seed?/config.json"))
    ]
    runs, problems = load_runs(path.parent for path in paths)
    assert not problems, problems
    streams: dict[str, Methods] = {name: defaultdict(list) for name in STREAMS}
    for run in runs:
        streams[run.stream][method(run)].append(run)
    return {name: methods for name, methods in streams.items() if BEST in methods}


def mean(runs: list[Run], number: str = "acc") -> float:
    return statistics.fmean(run.number(number) for run in runs)


def mean_se(values: list[float]) -> str:
    text = format_ratio(statistics.fmean(values))
    if len(values) < 2:
        return text
    return f"{text} ± {format_ratio(statistics.stdev(values) / len(values) ** 0.5)}"


def overview(streams: dict[str, Methods]) -> list[str]:
    """`best` on each stream beside the best rival without rows at equal bytes, and the best joint training."""
    lines = [
        "| stream | DGDMN `best` | best rival without rows | | best joint training | | chosen λ, g |"
    ]
    lines += ["|---|--:|--:|---|--:|---|---|"]
    ahead = level = near = top = 0
    for name, methods in streams.items():
        own, rivals, ceilings = mean(methods[BEST]), {}, {}
        for title, runs in methods.items():
            if title.endswith("‡"):
                ceilings[title] = mean(runs)
            elif title.startswith("DGDMN") or title.endswith("†"):
                continue
            elif mean(runs, "memory_bytes") <= EQUAL_BYTES:
                rivals[title] = mean(runs)
        rival, ceiling = _top(rivals), _top(ceilings)
        if rival[1] > 0:
            lead = round(own - rival[1], 3)
            ahead, level, near = ahead + (lead > 0), level + (lead == 0), near + (lead >= -0.01)
        top += own >= ceiling[1] - 0.03 if ceiling[1] > 0 else 0
        chosen = sorted({_chosen(run) for run in methods[BEST]} - {""})
        cells = [STREAMS[name].title, f"**{mean_se([r.acc for r in methods[BEST]])}**"]
        for title, value in (rival, ceiling):
            cells += [format_ratio(value) if title else "–", title]
        lines.append(f"| {' | '.join([*cells, '; '.join(chosen)])} |")
    counts = f"{len(streams)} streams: ahead of the best rival on {ahead}, level on {level}, within .01 on {near}"
    counts += f"; within .03 of the best joint training or above it on {top}"
    return [*lines, "", f"`best` on {counts}."]


def _top(accuracies: dict[str, float]) -> tuple[str, float]:
    return max(accuracies.items(), key=lambda one: one[1], default=("", 0.0))


def _chosen(run: Run) -> str:
    chosen = (run.record.summary or {}).get("chosen")
    return f"{chosen['shrinkage']:g}, {chosen['own_covariance']:g}" if chosen else ""


def table() -> str:
    """An overview, then one table for each stream, best accuracy first; ceilings and stored rows are marked."""
    streams = read()
    lines = [*overview(streams), ""]
    for name, methods in streams.items():
        lines += [f"### {STREAMS[name].title}", ""]
        lines += ["| method | accuracy | rows right | BWT | train CPU s | bytes | seeds |"]
        lines += ["|---|--:|--:|--:|--:|--:|--:|"]
        for title, group in sorted(methods.items(), key=lambda one: -mean(one[1])):
            bwt = [run.number("bwt") for run in group]
            cells = [
                f"**{title}**" if title == BEST else title,
                mean_se([run.acc for run in group]),
                format_ratio(mean(group, "row_accuracy")),
                format_ratio(statistics.fmean(bwt)) if all(b == b for b in bwt) else "–",
                f"{mean(group, 'train_cpu_seconds'):.1f}".replace("nan", "–"),
                format_bytes(mean(group, "memory_bytes")),
                str(len(group)),
            ]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


COLORS = {
    "DGDMN `best`": "#c2410c",
    "DGDMN `deep`": "#f59e0b",
    "DGDMN `paper`": "#fbbf24",
    "SLDA": "#1d4ed8",
    "Ridge": "#0891b2",
    "NCM": "#7c3aed",
    "GaussianNB": "#c084fc",
    "ER `best`†": "#15803d",
    "iCaRL `best`†": "#65a30d",
    "Logistic regression‡": "#111827",
    "Random forest‡": "#6b7280",
    "Joint `deep`‡": "#a8a29e",
}
"""Methods of the figure; their variants have the same color."""


def draw() -> None:
    """Error against bytes and against CPU seconds, a row for each of three streams; one legend for all."""
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator, NullLocator

    plt.rcParams["svg.hashsalt"] = "comparison"  # the same ids each time
    streams = {name: methods for name, methods in read().items() if name in DRAWN}
    figure, axes = plt.subplots(len(streams), 2, figsize=(9, 3 * len(streams)), sharey="row")
    for (name, methods), pair in zip(streams.items(), axes, strict=True):
        for axis, number in zip(pair, ("memory_bytes", "train_cpu_seconds"), strict=True):
            for method_name, color in COLORS.items():
                points = _points(methods, method_name, number)
                if method_name == BEST and number == "memory_bytes":
                    axis.plot(*zip(*sorted(points["o"]), strict=True), color=color, lw=1)
                for marker, places in points.items():
                    fill = color if marker == "o" else "none"
                    for x, error in places:
                        axis.plot(x, error, marker, ms=5, color=color, mfc=fill)
            axis.set(xscale="log", yscale="log", title=STREAMS[name].title)
            axis.set_xlabel("bytes" if number == "memory_bytes" else "CPU seconds of training")
            axis.yaxis.set_major_formatter(lambda error, _: f"{error:g}")
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_minor_locator(NullLocator())
            axis.spines[["top", "right"]].set_visible(False)
        pair[0].set_ylabel("error")
    entries = [Line2D([], [], ls="", marker="o", color=c, label=n) for n, c in COLORS.items()]
    for entry in entries:
        entry.set_label(str(entry.get_label()).replace("`", ""))
    entries.append(Line2D([], [], ls="", marker="s", mfc="none", color="k", label="no front end"))
    figure.legend(handles=entries, loc="lower center", ncols=5, frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(FIGURE, metadata={"Date": None})


def _points(methods: Methods, name: str, number: str) -> dict[str, list[tuple[float, float]]]:
    """(x, error) of a method and its variants: circles, or squares without a front end."""
    points: dict[str, list[tuple[float, float]]] = {"o": [], "s": []}
    plain, mark = name.rstrip("†‡"), name[len(name.rstrip("†‡")) :]
    for title, runs in methods.items():
        variant = title.removeprefix(plain).removesuffix(mark)
        if title.startswith(plain) and (not variant or variant.startswith(" (")):
            marker = "s" if "features none" in variant else "o"
            points[marker].append((mean(runs, number), 1 - mean(runs)))
    return points


def small_table() -> str:
    """The table of the README: some methods on some streams; the last row is the best joint training."""
    streams = {name: methods for name, methods in read().items() if name in README_STREAMS}
    rows = {BEST: f"**{BEST}**", "SLDA": "SLDA", "Ridge (ridge_units 1390)": "Ridge, equal bytes"}
    rows |= {
        "iCaRL `best`†": "iCaRL, equal bytes, keeps rows",
        "‡": "best joint training on all rows",
    }
    titles = [STREAMS[name].title for name in streams]
    lines = [f"|  | {' | '.join(titles)} |", "|---|" + "--:|" * len(titles)]
    for title, shown in rows.items():
        cells = []
        for methods in streams.values():
            found = [mean(runs) for name, runs in methods.items() if name.endswith(title)]
            found = [mean(methods[title])] if title in methods else found if title == "‡" else []
            cells.append(format_ratio(max(found)) if found else "–")
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write_page() -> None:
    """Replace the tables of the page and of the README."""
    head = PAGE.read_text("utf-8").partition(MARK)[0]
    PAGE.write_text(f"{head}{MARK}\n\n{table()}", "utf-8")
    before, _, rest = README.read_text("utf-8").partition(MARK)
    README.write_text(f"{before}{MARK}\n{small_table()}\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    collect([Path(word) for word in sys.argv[1:]])
    write_page()
    draw()
