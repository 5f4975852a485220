"""`best` on each stream beside `paper`, the paper's own and Joint; and what it costs beside `paper`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dgdmn.report.reproducibility.beyond.aims import AIMS, Aim, goal
from dgdmn.report.reproducibility.collected import Result
from dgdmn.report.reproducibility.numbers import Shelf, bwt, mean, said, table, training_times, values
from dgdmn.wording import size

_CAUTION = (
    "Training is learning and sleeping on one thread, the mean over the seeds that both have on one machine, by the "
    "processor's time where both recorded it, else by the wall clock; without such a seed each is told by itself. The "
    "cores were shared with other work, and not evenly, so the ratio is rough; `benchmarks/presets.py` times both in "
    "turns, figures in docs/LOG.md. Bytes are those of the long-term memory and of n_STM task memories, for `best` "
    "with its prior and with as many codes as a task memory ever held."
)


def stream_tables(shelf: Shelf) -> str:
    """What is reached, and what it costs."""
    return "\n\n".join([_reached(shelf), _costs(shelf), _CAUTION])


def _reached(shelf: Shelf) -> str:
    head = [
        "",
        "DGDMN, `paper`",
        "the paper's best",
        "DGDMN, `best`",
        "BWT",
        "Joint, same learner",
        "target",
        "",
    ]
    return table(head, [_row(aim, shelf) for aim in AIMS])


def _row(aim: Aim, shelf: Shelf) -> list[str]:
    mine, theirs, joint = aim.runs(shelf), aim.runs(shelf, ""), shelf.find(aim.dataset, "joint")
    return [
        aim.stream,
        _told(theirs, aim.value),
        aim.published(),
        f"**{_told(mine, aim.value)}**" if mine else "not run yet",
        said(values(mine, bwt)),
        _told(joint, aim.value),
        f"≥ {aim.target}",
        str(goal(aim, shelf)),
    ]


def _told(found: Sequence[Result], value: Callable[[Result], float]) -> str:
    return said(values(found, value)) if found else "not run yet"


def _costs(shelf: Shelf) -> str:
    streams = {(aim.dataset, aim.algorithm): aim for aim in AIMS}.values()
    head = [
        "",
        "training, `best`",
        "training, `paper`",
        "ratio (seeds; clock)",
        "bytes, `best`",
        "bytes, `paper`",
    ]
    return table(head, [_cost(aim, shelf) for aim in streams])


def _cost(aim: Aim, shelf: Shelf) -> list[str]:
    mine, theirs = aim.runs(shelf), aim.runs(shelf, "")
    times = training_times(mine, theirs)
    taken = [mean(group) for group in times.groups]
    kept = [mean([one.run.memory_bytes for one in found]) for found in (mine, theirs)]
    compared = f"({len(times.groups[0])}; {times.clock})"
    ratio = f"{taken[0] / taken[1]:.2f} × {compared}" if times.comparable and taken[1] > 0 else "–"
    return [
        aim.stream.split(",")[0],
        *(f"{one:,.0f} s" if one == one else "not run yet" for one in taken),
        ratio,
        *map(size, kept),
    ]
