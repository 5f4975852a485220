"""Unknown inputs and honest probabilities of the mixture memory: `python benchmarks/unknown.py`.

AUROC of the relative score for all 45 pairs of digits that were not learned, against the other eight, and for the
questions out of scope of CLINC150; false alarms of `unknown` at rate .01 on the newest and the older tasks; expected
calibration error of `predict_proba`. `--part validation` uses no test row.
"""

from __future__ import annotations

import argparse
import copy
import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from dgdmn import DGDMN
from dgdmn.core.batch import Batch
from dgdmn.core.events import Context, ignore
from dgdmn.core.rng import SeedStream
from dgdmn.features import FrontEnd
from dgdmn.memory.code import MixtureSpec
from dgdmn.memory.mixture import MixtureMemory
from dgdmn.memory.task_log import TaskInfo
from dgdmn.metrics import expected_calibration_error
from dgdmn.streams import load

NEWEST = 2
"""Tasks that count as new: those of the last sleep."""
Parts = list[tuple[NDArray[np.float64], NDArray[np.int64]]]


def auroc(unknown: NDArray[np.float64], known: NDArray[np.float64]) -> float:
    """The chance that an unknown row has a lower score than a known one."""
    ranks = rankdata(np.concatenate([unknown, known]))[: len(unknown)].sum()
    n, m = len(unknown), len(known)
    return float(1 - (ranks - n * (n + 1) / 2) / (n * m))


def read(name: str, part: str, seed: int) -> tuple[Parts, Parts]:
    """Features and labels of each task's rows to learn and rows to judge, computed once."""
    learned, judged, front_end = [], [], None
    for task in load(name, seed=seed, validation=0.15 if part == "validation" else 0.0):
        rows = task.validation if part == "validation" else task.test
        front_end = front_end or FrontEnd.fit(task.train.x, "auto", seed=0)
        for into, one in ((learned, task.train), (judged, rows)):
            x = [front_end.apply(one.x[at : at + 500]) for at in range(0, len(one.x), 500)]
            into.append((np.concatenate(x).astype(np.float64), np.asarray(one.y)))
    return learned, judged


def remember(x: NDArray[np.float64], label: int, spec: MixtureSpec) -> MixtureMemory:
    """A long-term memory of one class."""
    memory = MixtureMemory(spec, "ltm", 10, SeedStream(0))
    context = Context(SeedStream(0), ignore)
    memory.learn(
        Batch(x, np.full(len(x), label)), {str(label): TaskInfo(1, frozenset([label]))}, context
    )
    return memory


def digit_pairs(learned: Parts, judged: Parts) -> list[float]:
    """AUROC of each pair of unseen digits. Memories of eight digits are sums of memories of one."""
    spec = MixtureSpec(DGDMN(features="none")._config(), learned[0][0].shape[1])
    memories = {int(y[0]): remember(x, int(y[0]), spec) for x, y in learned}
    x, y = (np.concatenate(part) for part in zip(*judged, strict=True))
    found = []
    for pair in itertools.combinations(range(10), 2):
        first, *rest = (memories[digit] for digit in range(10) if digit not in pair)
        memory = copy.copy(first)
        for other in rest:
            memory.add_memory(other)
        memory.consolidate([], Context(SeedStream(0), ignore))
        scores, unseen = memory.relative_scores(x), np.isin(y, pair)
        found.append(auroc(scores[unseen], scores[~unseen]))
    return found


def learn(parts: Parts) -> DGDMN:
    model = DGDMN(features="none")
    for number, (x, y) in enumerate(parts):
        model.partial_fit(x, y, task=str(number))
    return model.sleep()


def relative_scores(model: DGDMN, x: NDArray[np.float64]) -> NDArray[np.float64]:
    ltm = model._mixtures(model.fitted_.snapshot(), "score")[0]
    return ltm.relative_scores(x)


def false_alarms(model: DGDMN, judged: Parts) -> str:
    """Alarms at rate .01: mean of the newest tasks, then mean, least and most of the older ones."""
    rates = [float(model.unknown(x).mean()) for x, _ in judged]
    new, old = rates[-NEWEST:], rates[:-NEWEST]
    return (
        f"false alarms at .01: newest {np.mean(new):.4f}, "
        f"older {np.mean(old):.4f} ({min(old):.4f} to {max(old):.4f})"
    )


def calibration(model: DGDMN, judged: Parts) -> str:
    x, y = (np.concatenate(part) for part in zip(*judged, strict=True))
    p = model.predict_proba(x)
    places = np.searchsorted(model.classes_, y)
    temperature = model._mixtures(model.fitted_.snapshot(), "score")[0].frozen().temperature
    accuracy = float((p.argmax(axis=1) == places).mean())
    error = expected_calibration_error(p, places)
    return f"accuracy {accuracy:.4f}, calibration error {error:.4f} (temperature {temperature:g})"


def main(names: Sequence[str], part: str, seed: int) -> None:
    for name in names:
        learned, judged = read(name, part, seed)
        model = learn(learned)
        print(f"{name}: {calibration(model, judged)}; {false_alarms(model, judged)}", flush=True)
        if name == "clinc150":
            outside = load(name, seed=seed).unknown_rows(part)  # type: ignore[arg-type]
            inside = np.concatenate([x for x, _ in judged])
            found = auroc(relative_scores(model, outside), relative_scores(model, inside))
            alarms = float(model.unknown(outside).mean())
            print(
                f"{name}: out of scope AUROC {found:.4f}; {alarms:.3f} called unknown", flush=True
            )
        if name == "digits":
            pairs = digit_pairs(learned, judged)
            print(
                f"{name}: 45 pairs, mean AUROC {np.mean(pairs):.4f} ({min(pairs):.4f} to "
                f"{max(pairs):.4f})",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("streams", nargs="*", default=["clinc150", "hapt", "digits"])
    parser.add_argument("--part", choices=["test", "validation"], default="test")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    main(given.streams, given.part, given.seed)
