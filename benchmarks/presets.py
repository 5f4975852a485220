"""What `best` costs beside `paper`: `python benchmarks/presets.py digits hindi`.

The trainings that a DGDMN goes through on a stream are counted by the plan; a step of each network is timed here on one
thread, the two presets in turns, and the best of a few rounds counts. So the ratio is one of a single run on one
machine, which the wall clocks of long runs on shared cores are not.
"""

from __future__ import annotations

import argparse

from dgdmn.experiments.forecast import seconds
from dgdmn.experiments.target import run_of

ROUNDS = 4


def main() -> None:
    """Print a line for each stream."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stream", nargs="+")
    for stream in parser.parse_args().stream:
        specs = [run_of(stream, "dgdmn", name) for name in ("paper", "best")]
        rounds = [[seconds([spec], {})[spec.name] for spec in specs] for _ in range(ROUNDS)]
        paper, best = map(min, zip(*rounds, strict=True))
        print(f"{stream}: paper {paper:.0f} s, best {best:.0f} s, ratio {best / paper:.2f} (one thread)")


if __name__ == "__main__":
    main()
