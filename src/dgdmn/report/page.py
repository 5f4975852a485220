"""The page: one self-contained HTML file that loads nothing and runs only its own script."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dgdmn.core import text
from dgdmn.report.load import PHASES, Problem, Run
from dgdmn.report.sections import Data
from dgdmn.report.sections.configuration import configuration
from dgdmn.report.sections.curves import MAX_CELLS, cost_section, curves, heat_cell, heatmaps
from dgdmn.report.sections.memory import dream_section, latent_section, tiles_per_run
from dgdmn.report.sections.result import ablations, result_tables
from dgdmn.report.style import ASSETS, page_colors
from dgdmn.report.table import Stream, group_runs


def render(
    runs: Sequence[Run], problems: Sequence[Problem] = (), *, live: bool = False, figures: str = ""
) -> str:
    """The page of these runs. `figures` is a link to the directory with figure files.

    A live page has an empty `<div id="live">` under its header and loads `/live.js`.
    """
    streams = group_runs(runs)
    tiles = tiles_per_run(streams)
    data: Data = {"runs": runs, "problems": problems, "live": live, "figures": figures}
    data |= {"parts": [_part(stream, tiles) for stream in streams], "csp": content_policy(live)}
    html = _environment().get_template("page.html").render(data)
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
    return {"stream": stream, "selected": selected, "sections": [one for one in sections if one[2]]}


@cache
def _environment() -> Environment:
    environment = Environment(trim_blocks=True, lstrip_blocks=True, autoescape=True)
    environment.loader, environment.undefined = FileSystemLoader(ASSETS), StrictUndefined
    environment.filters |= {"short": text.shorten, "count": text.count_noun, "heat": heat_cell}
    environment.filters |= {"names": text.join_names, "ratio": text.format_ratio}
    environment.filters |= {"percent": text.format_percent, "bytes": text.format_bytes}
    environment.filters |= {"duration": text.format_duration}
    environment.globals |= {"phases": PHASES, "most_cells": MAX_CELLS}
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
