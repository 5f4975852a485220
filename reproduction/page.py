"""Pages from templates: REPRODUCIBILITY.md, results/*.md and the table in README.md.

A template in reproduction/pages/ may call any function below: a measure of a run, a table, the figures or a
whole section of a target. Prose about runs is in results/notes/<target>.md and may contain measures too.
"""

import re
from functools import partial
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dgdmn.core import text
from dgdmn.core.files import write_atomic
from dgdmn.report.sections.configuration import run_command
from reproduction import paper, tables
from reproduction import results as measured
from reproduction.results import MEASURES, Results
from reproduction.targets import TARGETS, parse_run

TEMPLATES = Path(__file__).with_name("pages")
PAGE = "REPRODUCIBILITY.md"
README_PART = re.compile(r"(<!-- results:.*?-->\n).*?(<!-- end of results -->)", re.DOTALL)


def write_pages(results: Results, directory: Path) -> list[Path]:
    """Write the pages that changed and return their paths."""
    written = []
    for path, content in render_pages(results, directory).items():
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            write_atomic(path, content.encode())
            written.append(path)
    return written


def render_pages(results: Results, directory: Path) -> dict[Path, str]:
    """The text of every page by its path; README.md too if it has a place for the table."""
    pages, renderer = {}, Renderer(results, directory)
    for template in sorted(TEMPLATES.glob("*.md")):
        path = directory.parent / PAGE if template.name == PAGE else directory / template.name
        pages[path] = renderer.render(template.read_text("utf-8"))
        if path.parent == directory:  # links are written as in REPRODUCIBILITY.md
            page = re.sub(rf"\]\({re.escape(directory.name)}/", "](", pages[path])
            pages[path] = re.sub(r"\]\((docs/|REPRODUCIBILITY)", r"](../\1", page)
    readme = directory.parent / "README.md"
    if readme.exists():
        table = renderer.render((TEMPLATES.parent / "readme_table.md").read_text("utf-8"))
        content = readme.read_text(encoding="utf-8")
        pages[readme] = README_PART.sub(lambda found: f"{found[1]}{table}{found[2]}", content)
    return pages


class Renderer:
    """Renders templates, which may call its public methods and the measures by name."""

    def __init__(self, results: Results, directory: Path) -> None:
        self._results, self._directory = results, directory
        self._environment = Environment(trim_blocks=True, lstrip_blocks=True)
        self._environment.loader = FileSystemLoader(TEMPLATES.parent)
        self._environment.undefined = StrictUndefined
        own = {name: getattr(self, name) for name in vars(Renderer) if not name.startswith("_")}
        own |= {name: partial(self.measure, name) for name in MEASURES}
        shared = {"results": results, "targets": TARGETS, "command": run_command}
        modules = {"tables": tables, "text": text, "paper": paper, "measured": measured}
        self._environment.globals |= own | shared | modules

    def render(self, template: str) -> str:
        """The text of a template, without superfluous empty lines."""
        content = self._environment.from_string(template).render()
        return re.sub(r"\n{3,}", "\n\n", content).strip() + "\n"

    def measure(self, name: str, run: str) -> str:
        """Mean and standard error of a measure of a run, which is given by its words in targets.toml."""
        return tables.with_verdict(self._results.values(parse_run(run), name), None)

    def format_with_verdict(self, measure: str, run: str) -> str:
        """A measure, the paper's number in brackets, and the verdict."""
        return tables.judge(self._results, parse_run(run), measure)

    def with_paper(self, measure: str, run: str) -> str:
        """A measure and the paper's number in brackets."""
        return re.sub(r"\).*", ")", self.format_with_verdict(measure, run))

    def seconds(self, *runs: str) -> str:
        """Training times of runs that are compared."""
        times = measured.training_times(*(self._results.find(parse_run(run)) for run in runs))
        return f"{', '.join(map(tables.seconds, times.groups))} ({times.clock})"

    def progress(self, target: str) -> str:
        """How many runs of a target are collected and missing."""
        found = sum(len(self._results.find(spec)) for spec in TARGETS[target].runs)
        missing = self._count_missing(target)
        return text.count_noun(found, "run") + (f", {missing} not run yet" if missing else "")

    def _count_missing(self, target: str) -> int:
        return sum(spec.key not in self._results.by_key for spec in TARGETS[target].specs())

    def table(self, target: str, kind: str = "") -> str:
        """The table of a target, or another one of its runs: a macro of tables.md."""
        if not (kind := kind or TARGETS[target].table):
            return ""
        macros = self._environment.get_template("tables.md").module
        return str(getattr(macros, kind)(TARGETS[target].runs))

    def figures(self, name: str) -> str:
        """Links to the figures of a target."""
        target, place = TARGETS[name], self._directory / "figures"
        names = sorted(path.stem for path in place.glob(f"{name}*.svg"))
        if target.figures and not names:
            needs = f": it needs {', '.join(target.artifacts)} of the runs"
            return f"Not drawn yet{needs if target.artifacts else ''}."
        links = (f"![{name}]({self._directory.name}/figures/{name}.svg)" for name in names)
        return "\n\n".join(links)

    def note(self, name: str) -> str:
        """The claim of a target and results/notes/<name>.md, which is left out while runs are missing."""
        target, path = TARGETS.get(name), self._directory / "notes" / f"{name}.md"
        claim = f"Claim of the paper: {target.claim}" if target and target.claim else ""
        if not path.exists() or (target and self._count_missing(name)):
            return claim
        return f"{claim}\n\n{self.render(path.read_text(encoding='utf-8'))}".strip()
