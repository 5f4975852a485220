"""`dgdmn sleep`: let a memory on disk consolidate what it learnt last."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from dgdmn.cli.memories import MemoryPath, held, kept, opened
from dgdmn.cli.run import parse
from dgdmn.errors import Interrupted, UsageError
from dgdmn.wording import counted, duration, listed


@dataclass(frozen=True)
class Sleep:
    """Consolidate what the short-term memory holds into the long-term memory, and save."""

    memory: MemoryPath
    """The memory, a directory."""
    threads: int = 0
    """torch threads; 0: as many as torch likes."""


def main(arguments: list[str], debug: bool = False) -> int:  # noqa: ARG001
    """Parse, sleep, save, say so."""
    args = parse(Sleep, arguments, "dgdmn sleep")
    from dgdmn.algorithms.generative import GenerativeClassifier
    from dgdmn.algorithms.saving import name_of
    from dgdmn.events import Event, SleepBegan

    with held(args.memory):
        model, notes = opened(args.memory, args.threads)
        if not isinstance(model, GenerativeClassifier):
            raise UsageError(f"{args.memory} is of {name_of(type(model))}, which never sleeps")
        awake = model.awake_tasks()
        if not awake:
            sys.stdout.write(f"{args.memory}: nothing is awake, so there is nothing to consolidate\n")
            return 0
        heard: list[Event] = []
        began, model.listen = time.monotonic(), heard.append
        try:
            model.sleep()
        except KeyboardInterrupt as stop:
            raise Interrupted(f"interrupted; {args.memory} is as it was") from stop
        notes.sleeps()
        kept(model, args.memory, notes)
    dreams = sum(event.dreams for event in heard if isinstance(event, SleepBegan))
    took = duration(time.monotonic() - began)
    sys.stdout.write(
        f"{args.memory}: slept {took}, and consolidated {listed(awake)} from {counted(dreams, 'dream')}\n"
    )
    return 0
