"""Pages from templates: REPRODUCIBILITY.md, results/*.md and the table in README.md.

A template in reproduction/pages/ contains `{{directive}}`: a measure of a run, a table, the figures or a
whole section of a target. Prose about runs is in results/notes/<target>.md and may contain measures too.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from dgdmn.core.errors import UsageError
from dgdmn.core.files import write_atomic
from dgdmn.core.text import count_noun, format_duration, format_mean_sem, format_ratio
from dgdmn.report.load import Run
from dgdmn.report.sections.configuration import run_command
from reproduction import paper, tables
from reproduction.results import MEASURES, Results, mean, training_times
from reproduction.targets import TARGETS, Target, parse_run

TEMPLATES = Path(__file__).with_name("pages")
PAGE = "REPRODUCIBILITY.md"
README_PART = re.compile(r"(<!-- results:.*?-->\n).*?(<!-- end of results -->)", re.DOTALL)


def write_pages(results: Results, directory: Path) -> list[Path]:
    """Write the pages that changed and return their paths."""
    written = []
    for path, text in render_pages(results, directory).items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_atomic(path, text.encode())
            written.append(path)
    return written


def render_pages(results: Results, directory: Path) -> dict[Path, str]:
    """The text of every page by its path; README.md too if it has a place for the table."""
    pages, renderer = {}, Renderer(results, directory)
    for template in sorted(TEMPLATES.glob("*.md")):
        path = directory.parent / PAGE if template.name == PAGE else directory / template.name
        text = renderer.render(template.read_text("utf-8"))
        pages[path] = text if path.parent != directory else _relative_links(text, directory.name)
    readme = directory.parent / "README.md"
    if readme.exists():
        text = readme.read_text(encoding="utf-8")
        table = renderer.render((TEMPLATES.parent / "readme_table.md").read_text("utf-8"))
        pages[readme] = README_PART.sub(lambda found: f"{found[1]}{table}{found[2]}", text)
    return pages


def _relative_links(text: str, name: str) -> str:
    text = re.sub(rf"\]\({re.escape(name)}/", "](", text)
    return re.sub(r"\]\((docs/|REPRODUCIBILITY)", r"](../\1", text)


@dataclass(frozen=True)
class Renderer:
    """Replaces the directives of a template."""

    results: Results
    directory: Path

    def render(self, text: str) -> str:
        text = re.sub(r"\{\{(.+?)\}\}", lambda found: self._replace(found[1]), text)
        return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"

    def _replace(self, text: str) -> str:
        name, _, rest = text.partition(" ")
        if name in MEASURES:
            values = self.results.values(parse_run(rest), name)
            return format_mean_sem(values) if values else "not run yet"
        if name in ("judged", "with_paper"):  # ours with the paper's number, and the verdict
            measure, _, words = rest.partition(" ")
            spec = parse_run(words)
            theirs = paper.published(measure, spec.algorithm, spec.stream)
            ours = tables.with_verdict(self.results.values(spec, measure), theirs)
            return ours if name == "judged" else re.sub(r"\).*", ")", ours)
        if name == "seconds":  # training times of runs that are compared, separated by |
            groups = [self.results.find(parse_run(words)) for words in rest.split("|")]
            times = training_times(*groups)
            return f"{', '.join(tables.seconds(mean(one)) for one in times.groups)} ({times.clock})"
        if name == "note":
            return self.note(rest)
        if name == "missed":  # tasks that the runs of a target did not learn
            return tables.missed_table(self.results, TARGETS[rest].runs)
        if name not in ("section", "table", "figures", "summary", "goals", "runs"):
            raise UsageError(f"no directive {name!r} in a page; remove it")
        part: str = getattr(self, name)(*([TARGETS[rest]] if rest else []))
        return part

    def summary(self) -> str:
        """How many of the paper's numbers match, and how much was run."""
        found = tables.verdicts(self.results, TARGETS["table-acc"].runs)
        counts = Counter(verdict.removeprefix("single run, ") for verdict in found.values())
        words = {"matches": "match", "higher": "are higher", "lower": "are lower"}
        listed = ", ".join(f"{n} {words.get(kind, kind)}" for kind, n in counts.most_common())
        seconds = sum(run.number("seconds") for run in self.results.by_key.values())
        took = f"{count_noun(len(self.results.by_key), 'run')} took {format_duration(seconds)}"
        total = f"Of the {counts.total()} numbers in the paper's two tables"
        return f"{total}, {listed}. {took} in all."

    def goals(self) -> str:
        """Every goal, what was measured, and whether it is reached."""
        goals = [goal for target in TARGETS.values() for goal in target.goals]
        rows = ([goal.text, *goal.check(self.results)] for goal in goals)
        return tables.markdown(["goal", "ours", ""], rows)

    def section(self, target: Target) -> str:
        found = sum(len(self.results.find(spec)) for spec in target.runs)
        missing = f", {n} not run yet" if (n := len(self._missing(target))) else ""
        status = f"`python -m reproduction {target.name}`: {count_noun(found, 'run')}{missing}."
        head = f"## {target.name}\n\n{target.title}. {status}"
        return tables.join(head, self.table(target), self.note(target.name), self.figures(target))

    def table(self, target: Target) -> str:
        if target.table in ("acc", "bwt"):
            return tables.metric_table(self.results, target.runs, target.table)
        make = getattr(tables, f"{target.table}_table", lambda *_: "")
        return str(make(self.results, target.runs))

    def figures(self, target: Target) -> str:
        place = self.directory / "figures"
        names = sorted(path.stem for path in place.glob(f"{target.name}*.svg"))
        if target.figures and not names:
            needs = f": it needs {', '.join(target.artifacts)} of the runs"
            return f"Not drawn yet{needs if target.artifacts else ''}."
        return "\n\n".join(f"![{name}]({self.directory.name}/figures/{name}.svg)" for name in names)

    def note(self, name: str) -> str:
        """The claim of a target and results/notes/<name>.md, which is left out while runs are missing."""
        target, path = TARGETS.get(name), self.directory / "notes" / f"{name}.md"
        claim = f"Claim of the paper: {target.claim}" if target and target.claim else ""
        if not path.exists() or (target and self._missing(target)):
            return claim
        return tables.join(claim, self.render(path.read_text(encoding="utf-8")).strip())

    def _missing(self, target: Target) -> list[str]:
        return [spec.name for spec in target.specs() if spec.key not in self.results.by_key]

    def runs(self) -> str:
        """A table of all runs: numbers, key, command, machine and code."""
        rows, machines = [], dict[str, str]()
        for run in sorted(self.results.by_key.values(), key=lambda run: run.name):
            letter = machines.setdefault(_machine(run), chr(ord("A") + len(machines)))
            code = run.record.config["versions"].get("source", "not recorded")
            numbers = [format_ratio(run.acc, 4), format_ratio(run.bwt, 4)]
            numbers += [format_duration(run.number("seconds")), f"`{command(run)}`", letter, code]
            rows.append([f"[{run.name}]({run.name})", f"`{run.key}`", *numbers])
        legend = "\n".join(f"- {letter}: {text}" for text, letter in machines.items())
        head = ["run", "key", "ACC", "BWT", "time", "command", "machine", "code"]
        return tables.join("Machines:", legend, tables.markdown(head, rows))


def _machine(run: Run) -> str:
    versions, machine = run.record.config["versions"], run.record.config["machine"]
    cores = f"{machine['cores']} cores"
    processor = machine.get("processor") or "processor not recorded"
    software = f"Python {versions['python']}, torch {versions['torch']}, numpy {versions['numpy']}"
    return f"{machine['system']} {machine['cpu']}, {cores}, {processor}; {software}"


def command(run: Run) -> str:
    """The command that repeats a run."""
    text = re.sub(r"--([\w-]+) False\b", r"--no-\1", run_command(run)).replace(" True", "")
    return f"{text} --threads {run.record.config['threads']}"
