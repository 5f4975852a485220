"""What `best` costs beside `paper`: `python benchmarks/presets.py digits hindi --threads 1`.

The trainings that a DGDMN goes through on a stream are counted by the plan; a step of each network is timed here, the
two presets in turns, and the best of a few rounds counts. So the ratio is one of a single run on one machine, which
the wall clocks of long runs on shared cores are not.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from dgdmn import streams
from dgdmn.experiments.forecast import OTHERWISE, ROWS
from dgdmn.experiments.plan import planned_stages
from dgdmn.experiments.timing import costs
from dgdmn.presets import preset

ROUNDS = 4
NAMES = ("paper", "best")


def seconds(stream: str, name: str, threads: int) -> float:
    """About how long the trainings of a DGDMN last on all tasks of a stream."""
    tasks, options = streams.load(stream), preset(name, stream)
    one_each = len(tasks.classes) == len(tasks.task_names)
    rows = options.samples_per_task or ROWS.get(stream, OTHERWISE)
    labels = [
        (task, np.resize([tasks.classes[number]] if one_each else list(tasks.classes), rows))
        for number, task in enumerate(tasks.task_names)
    ]
    stages = planned_stages("dgdmn", options, labels, tasks.shape)
    outputs = max(options.n_classes, len(tasks.classes))
    return sum(one.seconds for one in costs("dgdmn", options, tasks.shape, outputs, stages, threads))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each stream."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stream", nargs="+")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args(arguments)
    for stream in args.stream:
        taken = {name: [] for name in NAMES}
        for _ in range(ROUNDS):
            for name in NAMES:
                taken[name].append(seconds(stream, name, args.threads))
        paper, best = (min(taken[name]) for name in NAMES)
        print(
            f"{stream}: paper {paper:.0f} s, best {best:.0f} s, ratio {best / paper:.2f} (threads: {args.threads})"
        )


if __name__ == "__main__":
    main()
