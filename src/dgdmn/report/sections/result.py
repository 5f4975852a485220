"""What happened, the result table with floor and ceiling, and the effect of single options."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dgdmn.core.text import count_noun, format_mean_sem, format_option, format_ratio, join_names
from dgdmn.report.load import Run
from dgdmn.report.sections import Data
from dgdmn.report.table import COLUMNS, Group, Stream, changed_options, mean

Bound = tuple[float, str, Group | None]  # a floor or a ceiling, its source, the group if run
ACC, MACRO = COLUMNS[:2]
CLOSE = 0.01  # accuracies that differ by no more are equally good
MAX_BARS = 12  # methods in the first picture; of more, the best setting of each algorithm


def opening(stream: Stream) -> Data:
    """What happened, for a reader who knows none of the terms: a paragraph and one bar for each method."""
    tested = [group for group in stream.groups if group.first.evaluate_on == "test"]
    known = [g for g in tested or stream.groups if math.isfinite(g.mean("acc"))]
    many = len(known) > MAX_BARS
    if many:  # the default setting of an algorithm if there is one, else its best setting
        known.sort(key=lambda group: (group.is_default, _in_sequence(group), group.mean("acc")))
        known = list({group.algorithm: group for group in known}.values())
    known = sorted(known, key=lambda group: -group.mean("acc"))[:MAX_BARS]
    titles = [group.title for group in known]
    names = {g: g.title if titles.count(g.title) == 1 else g.name for g in known}
    algorithms = len({group.algorithm for group in stream.groups})
    subject = f"{algorithms} methods" if algorithms > 1 else stream.groups[0].title
    subject += f" in {len(stream.groups)} settings" if len(stream.groups) > algorithms else ""
    order_text = ", one after the other" if stream.sequential else ""
    verb = "learned" if known else "is learning" if algorithms == 1 else "are learning"
    text = [f"{subject} {verb} {count_noun(stream.n_tasks, 'task')}{order_text}.", *_ranking(names)]
    if not known and stream.sequential:  # the run that is furthest
        run = max(stream.runs, key=lambda run: len(run.accuracy))
        seen = count_noun(len(set(run.columns)), "task")
        text.append(
            f"After {seen}, {run.info.title} has an accuracy of {format_ratio(run.acc)} on them."
        )
    if missing := sum(not run.complete for run in stream.runs):
        text.append(f"{count_noun(missing, 'run is', 'runs are')} not finished.")
    bars = []
    for group, name in names.items():
        acc, css = group.mean("acc"), f"ours {group.css}" if group.is_default else ""
        kept = "keeps rows" if group.stores_rows else ""
        kept = "all tasks at once" if group.is_ceiling else kept
        bars.append((name, kept, acc, format_ratio(acc), None, css))
    return {"text": " ".join(text), "bars": bars, "many": many}


def _ranking(names: Mapping[Group, str]) -> list[str]:
    """Sentences about the methods, best first, that remember most and least, and about the ceiling."""
    known, text = list(names), list[str]()
    if len(known) == 1:
        share, learned = (format_ratio(known[0].mean(number)) for number in ("acc", "learned"))
        several = len(known[0].first.accuracy) > 1
        suffix = f"; accuracy right after each task was {learned}" if several else ""
        return [f"Final accuracy is {share}{suffix}.", *_macro(names)]
    best = ACC.best_groups(known)
    if best:
        rows = any(group.stores_rows for group in known)
        scope = " among the methods that keep no training rows" if rows else ""
        subject = f"{_subject(best, names, 'remember')} most{scope}"
        share = format_ratio(best[0].mean("acc"))
        text.append(f"In the final test on all tasks, {subject}: accuracy {share}.")
    if others := [group for group in known if not group.is_ceiling and group not in best]:
        share = format_ratio(others[-1].mean("acc"))
        least = [group for group in others if format_ratio(group.mean("acc")) == share]
        last = ": only the last task is known" if all(map(_knows_only_last, least)) else ""
        text.append(f"{_subject(least, names, 'remember')} least, {share}{last}.")
    for one in [group for group in known if group.is_ceiling][:1]:
        share = format_ratio(one.mean("acc"))
        text.append(f"{names[one]}, which learns from the data of all tasks together, has {share}.")
    return [*text, *_macro(names)]


def _macro(names: Mapping[Group, str]) -> list[str]:
    """The best macro accuracy in a sentence, if classes differ much in size."""
    best = MACRO.best_groups(list(names))
    if not best or not any(run.is_unbalanced for group in names for run in group.runs):
        return []
    share, leaders = (
        format_ratio(best[0].mean("macro_accuracy")),
        join_names(names[g] for g in best),
    )
    others = f", the best is {leaders}: {share}" if len(names) > 1 else f", it is {share}"
    return [f"By macro accuracy, which counts each class once{others}."]


def _subject(groups: Sequence[Group], names: Mapping[Group, str], verb: str) -> str:
    """Names and a verb: "A learns", "A and B learn", "A, B and 3 more learn"."""
    words = [names[group] for group in groups]
    if len(words) == 1:
        return f"{words[0]} {verb}s"
    rest = words[2:] if len(words) == 3 else [f"{len(words) - 2} more"] if words[3:] else []
    *first, last = [*words[:2], *rest]
    return f"{', '.join(first)} and {last} {verb}"


def _in_sequence(group: Group) -> bool:
    """Whether it learned as its algorithm is meant to: a ceiling learns all tasks at once, others do not."""
    return group.first.info.category == "ceiling" or not group.first.together


def result_tables(stream: Stream) -> list[Data]:
    """A part of the table for each setting: its groups with a verdict each, floor and ceiling."""
    tables, parts = list[Data](), dict[str, list[Group]]()
    best, best_macro = (column.best_groups(stream.groups) for column in (ACC, MACRO))
    for group in stream.groups:
        parts.setdefault(group.setting, []).append(group)
    macro = any(run.is_unbalanced for run in stream.runs)
    bounds = {title: find_bounds(stream, groups) for title, groups in parts.items()}
    for title, groups in parts.items():
        (low, why, _), (high, which, top) = bounds[title]
        rivals = [group for t, (_, one) in bounds.items() if one[2] is top for group in parts[t]]
        above = [g for g in rivals if top and not g.is_ceiling and g.mean("acc") > high + CLOSE]
        facts = {"floor": low, "ceiling": high, "top": top, "above": above, "close": CLOSE}
        facts |= {"macro": macro, "best": best, "best_macro": best_macro}
        lines = [describe_group(group) | facts for group in groups]
        text = f"Floor {format_ratio(low)} ({why})"
        if top and above:
            highest = max(above, key=lambda group: group.mean("acc"))
            text += f". {top.title} reached {format_ratio(high)}, so it is not a ceiling here: "
            text += f"{highest.title} reached {format_ratio(highest.mean('acc'))}."
        else:
            text += f", ceiling {format_ratio(high)} ({which})."
        bold = bool(best or (macro and best_macro))
        tables.append(
            {"title": title, "bounds": text, "lines": lines, "macro": macro, "bold": bold}
        )
        tables[-1]["seeds"] = max(len(group.runs) for group in groups)
    return tables


def find_bounds(stream: Stream, groups: Sequence[Group]) -> tuple[Bound, Bound]:
    """Floor: a plain network trained in sequence, else what guessing gives. Ceiling: the best joint training, else 1.

    They come from the same setting if it has them, else from another preset or protocol with the same tasks.
    """
    run, high = groups[0].first, (1.0, "no errors; joint training was not run", None)
    floor, ceiling = (_closest(stream, run, category) for category in ("none", "ceiling"))
    return floor or _chance(run), ceiling or high


def _chance(run: Run) -> Bound:
    """1/K if tasks share some of the K classes, else 1/T: one of T tasks is known."""
    n, classes = len(run.tasks), len(run.classes)
    if run.shared_classes or 0 < classes < n:
        named = count_noun(classes, "class", "classes")
        return 1 / classes, f"1/{classes}: guessing among {named}", None
    return 1 / n, f"1/{n}: one of {count_noun(n, 'task')} known", None


def _closest(stream: Stream, run: Run, category: str) -> Bound | None:
    """The group of an algorithm of this category that is most like a run, and of several the best."""
    found = [group for group in stream.groups if group.ended and _fits(group.first, run, category)]
    found.sort(key=lambda g: (g.first.preset != run.preset, -g.mean("acc")))
    return (found[0].mean("acc"), f"{found[0].name}, run here", found[0]) if found else None


def _fits(candidate: Run, run: Run, category: str) -> bool:
    changes, unused = changed_options(run).items(), candidate.info.unused
    used = {k: value for k, value in changes if not unused(k, run.options)}
    return (
        candidate.info.category == category
        and candidate.evaluate_on == run.evaluate_on
        and sorted(candidate.tasks) == sorted(run.tasks)
        and changed_options(candidate) == used
        and math.isfinite(candidate.acc)
        and not candidate.revise
        and not (category == "none" and candidate.together)  # trained together, it forgets nothing
    )


def describe_group(group: Group) -> Data:
    """The facts that decide what a result means; verdict.html says it in one sentence."""
    run = max(group.runs, key=lambda run: len(run.accuracy))
    facts: Data = {"group": group, "run": run, "info": group.first.info}
    facts |= {name: group.mean(name) for name in ("acc", "macro_accuracy", "learned")}
    facts["missing"] = len(group.ended) - len(group.values("acc"))
    return facts | {"knows_only_last": _knows_only_last(group)}


def _knows_only_last(group: Group) -> bool:
    rows = [(run.accuracy[-1], run.columns[-1]) for run in group.ended if len(run.tasks) > 1]
    last = [row[column] for row, column in rows]
    others = [np.delete(row, column).mean() for row, column in rows]
    return bool(rows) and float(np.mean(last)) > 0.5 and float(np.mean(others)) < 0.03


def ablations(stream: Stream) -> list[Data]:
    """A line for each option changed alone, if the run without the change exists; largest loss first."""
    bases = {_alike(run): run for run in stream.runs if run.complete and not run.changes}
    lines = []
    for group in stream.groups:
        pairs = [(run, bases[_alike(run)]) for run in group.ended if _alike(run) in bases]
        pairs = [(run, base) for run, base in pairs if _changes_one_option(run, base)]
        lines += [_ablation(group, pairs)] if pairs else []
    return sorted(lines, key=lambda line: (line["name"], line["loss"], line["option"]))


def _alike(run: Run) -> tuple[object, ...]:
    protocol = (run.evaluate_on, run.revise, run.together)
    return run.algorithm, run.preset, protocol, run.tasks, run.seed


def _changes_one_option(run: Run, base: Run) -> bool:
    names = run.options.keys() | base.options.keys()
    different = {name for name in names if run.options.get(name) != base.options.get(name)}
    return len(run.changes) == 1 and different <= run.changes.keys()


def _ablation(group: Group, pairs: Sequence[tuple[Run, Run]]) -> Data:
    run, base = pairs[0]
    option, value = next(iter(run.changes.items()))
    before = "default" if option in run.arguments else format_option(base.options.get(option))
    how = ["all tasks together"] if run.together else []
    how += [f"on {run.evaluate_on} rows"] if run.evaluate_on != "test" else []
    differences = [changed.acc - unchanged.acc for changed, unchanged in pairs]
    # Times of two machines cannot be compared.
    timed = [pair for pair in pairs if pair[0].machine == pair[1].machine]
    return {
        "name": ", ".join([f"{group.title} ({run.preset})", *how]),
        "css": group.css,
        "option": option,
        "change": f"{before} → {format_option(value)}",
        "acc": format_mean_sem([changed.acc for changed, _ in pairs]),
        "bwt": format_mean_sem([changed.bwt for changed, _ in pairs]),
        "difference": format_difference(differences),
        "loss": loss if math.isfinite(loss := mean(differences)) else math.inf,
        "seconds": [mean([pair[i].number("trained_seconds") for pair in timed]) for i in (1, 0)],
        "memory": [mean([pair[i].memory_bytes for pair in pairs]) for i in (1, 0)],
        "seeds": len(pairs),
    }


def format_difference(values: Sequence[float]) -> str:
    """A difference with its sign.

    >>> format_difference([0.0123]), format_difference([-0.2, -0.22]), format_difference([-0.0001])
    ('+.012', '−.210 ± .010', '.000')
    """
    text = format_mean_sem(values)
    return f"+{text}" if mean(values) > 0 and format_ratio(mean(values)) != ".000" else text
