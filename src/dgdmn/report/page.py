"""The page: one self-contained HTML file, nothing fetched, nothing executed that is not its own."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dgdmn.report import words
from dgdmn.report.charts import marker_definitions
from dgdmn.report.colours import (
    CLASSES,
    HEAT_STEPS,
    LOOKS,
    OTHER,
    VARIANTS,
    Look,
    css_class,
    display_name,
    heat,
)
from dgdmn.report.entries import Dataset, datasets
from dgdmn.report.runs import Problem, Run, read_runs
from dgdmn.report.sections.ablation import Changed, ablation
from dgdmn.report.sections.configuration import Configuration, configuration
from dgdmn.report.sections.cost import Costs, costs
from dgdmn.report.sections.curves import Compared, Curves, curves
from dgdmn.report.sections.dreams import DreamBook, books, fair_share, quality_charts
from dgdmn.report.sections.latent import Inside, inside
from dgdmn.report.sections.matrix import Heatmap, heatmaps
from dgdmn.report.sections.result import Table, tables
from dgdmn.wording import counted


def render(runs: Sequence[Path], *, live: bool = False, figures: Path | None = None) -> str:
    """The page on these run directories; `figures`, as the page links to them, holds the same as files.

    A live page has an empty `<div id="live">` under its header and loads `/live.js`.
    """
    read, problems = read_runs(runs)
    return render_runs(read, problems, live=live, figures=figures)


def render_runs(
    runs: Sequence[Run], problems: Sequence[Problem], *, live: bool = False, figures: Path | None = None
) -> str:
    """The page on runs that were read."""
    found = datasets(runs)
    parts = [_part(index, dataset, fair_share(found)) for index, dataset in enumerate(found)]
    template = _environment().get_template("page.html")
    html = template.render(
        title=_title(runs),
        subtitle=_subtitle(runs),
        parts=parts,
        problems=problems,
        live=live,
        figures=figures.as_posix() if figures else "",
        csp=csp(live),
        style=Markup(_style()),
        script=Markup(_script()),
        markers=_markers(),
    )
    return html.encode(errors="backslashreplace").decode()  # a name may hold half a character


def csp(live: bool) -> str:
    """The Content-Security-Policy of the page: its own style and script by their hash, pictures inside it.

    A live page may also load files of its own server, and ask it what is new.
    """
    own = " 'self'" if live else ""
    policy = {
        "default-src": "'none'",
        "style-src": f"'{_hash(_style())}'{own}",
        "script-src": f"'{_hash(_script())}'{own}",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        **({"connect-src": "'self'"} if live else {}),
    }
    return "; ".join(f"{name} {value}" for name, value in policy.items())


@dataclass(frozen=True)
class _Part:
    """All sections of one dataset."""

    index: int
    key: str
    """The dataset's name."""
    name: str
    """What people call it."""
    favourite: str
    """The run that a chooser begins with: the first of DGDMN, if there is one."""
    tables: tuple[Table, ...]
    ablation: tuple[Changed, ...]
    curves: Curves
    heatmaps: tuple[Heatmap, ...]
    books: tuple[DreamBook, ...]
    quality: Compared
    inside: Inside
    costs: Costs
    made: Configuration

    @property
    def contents(self) -> list[tuple[str, str]]:
        """Names and headings of the sections that have something to show."""
        shown = {
            "result": ("Result", True),
            "ablation": ("Options", bool(self.ablation)),
            "curves": ("Curves", bool(self.curves.panels)),
            "matrix": ("Matrix", bool(self.heatmaps)),
            "dreams": ("Dreams", bool(self.books)),
            "latent": ("Latent space", self.inside.any),
            "cost": ("Time and memory", True),
            "configuration": ("Configuration", True),
        }
        return [(name, heading) for name, (heading, there) in shown.items() if there]


def _part(index: int, dataset: Dataset, tiles: int) -> _Part:
    ours = [run.name for run in dataset.runs if run.algorithm == "dgdmn"]
    return _Part(
        index,
        dataset.name,
        words.dataset_name(dataset.name),
        ours[0] if ours else "",
        tables(dataset),
        ablation(dataset),
        curves(dataset),
        heatmaps(dataset),
        books(dataset, tiles),
        quality_charts(dataset),
        inside(dataset),
        costs(dataset),
        configuration(dataset),
    )


def _title(runs: Sequence[Run]) -> str:
    names = list(dict.fromkeys(words.dataset_name(run.dataset) for run in runs))
    algorithms = {run.algorithm for run in runs}
    if not names:
        return "No runs"
    where = words.short(words.listed(names[:6]), 80) + (" and more" if len(names) > 6 else "")
    return f"{words.short(display_name(algorithms.pop()), 40)} on {where}" if len(algorithms) == 1 else where


def _subtitle(runs: Sequence[Run]) -> str:
    """What was run, in a line."""
    algorithms = len({run.algorithm for run in runs})
    seeds = sorted({run.seed for run in runs})
    presets = dict.fromkeys(words.short(run.preset, 20) for run in runs)
    going = sum(not run.record.complete for run in runs)
    told = [
        f"{counted(len(runs), 'run')} of {counted(algorithms, 'algorithm')}",
        *([f"{'seed' if len(seeds) == 1 else 'seeds'} {words.listed(seeds[:8])}"] if seeds else []),
        *([f"preset {words.listed(list(presets)[:4])}"] if presets else []),
        *([f"{going} not finished"] if going else []),
    ]
    return " · ".join(told)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dgdmn.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"ratio": words.ratio, "short": words.short, "sentence": words.sentence}
    return environment


@cache
def _script() -> str:
    return _asset("script.js")


@cache
def _style() -> str:
    light, dark = (_colours(dark=dark) for dark in (False, True))
    return f"{_asset('style.css')}\n{light}\n@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def _asset(name: str) -> str:
    return resources.files("dgdmn.report").joinpath("assets", name).read_text(encoding="utf-8")


def _colours(*, dark: bool) -> str:
    """The rules that come from `colours`: algorithms, tasks, heat."""
    looks: dict[str, Look] = {**LOOKS, "": OTHER}
    rules = [f".{css_class(name)}{{--c:{one.dark if dark else one.light}}}" for name, one in looks.items()]
    rules += [f".t{i}{{--c:{pair[dark]}}}" for i, pair in enumerate(CLASSES)]
    shades = {step: heat(step, dark=dark) for step in range(HEAT_STEPS + 1)}
    rules += [f".h{i}{{background:{shade.background};color:{shade.text}}}" for i, shade in shades.items()]
    if not dark:
        dashes = {css_class(name): one.dash for name, one in looks.items() if one.dash}
        # behind the algorithms' own, whose place they take
        dashes |= {f"v{i}": dash for i, dash in enumerate(VARIANTS)}
        rules += [
            f".s.{name}{{stroke-dasharray:{' '.join(f'{part:g}' for part in dash)}}}"
            for name, dash in dashes.items()
        ]
    return "\n".join(rules)


def _markers() -> Markup:
    looks = {**LOOKS, "": OTHER}
    return marker_definitions(
        [(f"m-{css_class(name)}", css_class(name), one.marker) for name, one in looks.items()]
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
