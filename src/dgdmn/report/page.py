"""The page: one self-contained HTML file that loads nothing and runs only its own script."""

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from dgdmn.core import text
from dgdmn.report.load import PHASES, Problem, Run
from dgdmn.report.sections import Data
from dgdmn.report.sections.configuration import configuration
from dgdmn.report.sections.curves import MAX_CELLS, cost_section, curves, heatmaps
from dgdmn.report.sections.memory import dream_section, latent_section, tiles_per_run
from dgdmn.report.sections.result import ablations, opening, result_tables
from dgdmn.report.style import ASSETS, CLASS_COLORS, page_colors
from dgdmn.report.table import Stream, group_runs

TERMS = {
    "acc": "Accuracy at the end: the share of right answers on the test samples, the mean over all tasks.",
    "bwt": "Backward transfer: the effect of later tasks on earlier ones. 0: nothing forgotten, −1: everything.",
    "stm": "Short-term memory: holds the newest tasks until the next sleep.",
    "ltm": "Long-term memory: holds what was learned before; each sleep adds the newest tasks to it.",
    "purity": "Share of dreams whose label agrees with the real test samples nearest to them.",
    "floor": "The accuracy of a plain network that learns in sequence; if none was run, 1 divided by the number of "
    "classes that tasks share, else of tasks.",
    "ceiling": "The best accuracy of training on all tasks together; if that was not run, 1.",
    "macro": "The mean of the accuracies of all classes, each counted once however many rows it has.",
    "unknown": "Share of rows that the memory marks as unlike anything it has learned.",
    "ece": "Expected calibration error: how far the stated probability is from the share of right answers. 0 is best.",
}
_TERM = re.compile(rf"\b({'|'.join(TERMS)})\b", re.IGNORECASE)


def render(
    runs: Sequence[Run], problems: Sequence[Problem] = (), *, live: bool = False, figures: str = ""
) -> str:
    """The page of these runs. `figures` is a link to the directory with figure files.

    A live page has an empty `<div id="live">` under its header and loads `/live.js`.
    """
    streams = group_runs(runs)
    tiles = tiles_per_run(streams)
    data: Data = {"runs": runs, "problems": problems, "figures": figures}
    data["parts"] = [_part(stream, tiles) for stream in streams]
    return render_page("page.html", data, live)


def render_page(template: str, data: Data, live: bool = False) -> str:
    """A template as a whole page with its policy."""
    html = _environment().get_template(template).render(data, live=live, csp=content_policy(live))
    return html.encode(errors="backslashreplace").decode()  # a name may contain a lone surrogate


def content_policy(live: bool) -> str:
    """The Content-Security-Policy: own style and script by hash, images inside the page.

    A live page may also load files from its own server and send requests to it.
    """
    own = " 'self'" if live else ""
    return (
        f"default-src 'none'; style-src '{_hash(_style())}'{own}; "
        f"script-src '{_hash(_asset('script.js'))}'{own}; img-src data:; base-uri 'none'; "
        "form-action 'none'" + ("; connect-src 'self'" if live else "")
    )


def _part(stream: Stream, tiles: int) -> Data:
    """All sections of one stream that have something to show: template, heading and data."""
    sections = (
        ("result", "Result", result_tables(stream)),
        ("ablation", "Options", ablations(stream)),
        ("curves", "Curves", curves(stream)),
        ("matrix", "Matrix", heatmaps(stream)),
        ("dreams", "Dreams", dream_section(stream, tiles)),
        ("latent", "Latent space", latent_section(stream)),
        ("cost", "Time and memory", cost_section(stream)),
        ("configuration", "Configuration", configuration(stream)),
    )
    # A chooser first shows a run with a short-term memory, if there is any.
    selected = next((run.name for run in stream.runs if run.info.short_term), "")
    shown = [one for one in sections if one[2]]
    return {"stream": stream, "opening": opening(stream), "selected": selected, "sections": shown}


def explain(words: str) -> Markup:
    """A text in which the first use of each term shows its meaning when pointed at or focused."""
    found = set[str]()

    def mark(match: re.Match[str]) -> str:
        meaning = "" if match[0].lower() in found else TERMS[match[0].lower()]
        found.add(match[0].lower())
        return f'<abbr tabindex="0" data-tip="{meaning}">{match[0]}</abbr>' if meaning else match[0]

    return Markup(_TERM.sub(mark, str(escape(words))))


@cache
def _environment() -> Environment:
    environment = Environment(trim_blocks=True, lstrip_blocks=True, autoescape=True)
    environment.loader, environment.undefined = FileSystemLoader(ASSETS), StrictUndefined
    environment.filters |= {"short": text.shorten, "count": text.count_noun, "explain": explain}
    environment.filters |= {"names": text.join_names, "ratio": text.format_ratio}
    environment.filters |= {"percent": text.format_percent, "bytes": text.format_bytes}
    environment.filters |= {"duration": text.format_duration}
    environment.globals |= {"phases": PHASES, "most_cells": MAX_CELLS, "class_colors": CLASS_COLORS}
    environment.globals |= {"style": Markup(_style()), "script": Markup(_asset("script.js"))}
    return environment


@cache
def _style() -> str:
    light, dark = (page_colors(dark=dark) for dark in (False, True))
    return f"{_asset('style.css')}\n{light}\n@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


@cache
def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
