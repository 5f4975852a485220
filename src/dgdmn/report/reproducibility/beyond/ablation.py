"""What each option of `best` is worth, on the streams of the ablation."""

from __future__ import annotations

from collections.abc import Sequence

from dgdmn.report.ablations import Ablation, ablations
from dgdmn.report.reproducibility.collected import Result
from dgdmn.report.reproducibility.numbers import (
    BEST,
    Shelf,
    acc,
    bwt,
    mean,
    on_one_machine,
    said,
    signed,
    table,
    values,
)
from dgdmn.report.words import dataset_name, plain, seconds
from dgdmn.wording import size

DATASETS = ("digits", "hindi")
_WITHOUT = {"dgdmn": "", "dgdmn-recog": ", without descriptors"}
_COLUMNS = ("ACC", "BWT", "difference", "training", "bytes")
_WORDS = (
    "The difference is that of ACC to `best` with the same seed; the option that costs most on Digits comes first. "
    "Some take others with them: without the prior or without latent noise no dream is drawn anew, and without the "
    "prior recognition is by reconstruction. Not among them: a larger step size, other numbers of epochs, the STTMs' "
    "latents, γ, and on Hindi dense generators instead of convolutions (there `sttm_generator_layers` 128 64 are not "
    "`paper`'s but those of Digits). Training is the processor's time where it was recorded, else wall clock, on "
    "cores that were shared with other work, so rough, of seeds that ran on one machine, `best` of the same seed too; "
    "bytes are counted as above."
)


def option_table(results: Sequence[Result]) -> str:
    """A line for `best`, and one for each option that was changed alone."""
    best = Shelf(tuple(one for one in results if one.run.preset == "best"))
    if not best.results:
        return "Not run yet."
    found = by_option(best)
    head = ["", *(f"{name}, {column}" for name in map(dataset_name, DATASETS) for column in _COLUMNS)]
    rows = []
    for algorithm, without in _WITHOUT.items():
        rows.append(
            [f"`best`{without}", *(cell for name in DATASETS for cell in _whole(best, name, algorithm))]
        )
        rows += [
            [
                label + without,
                *(cell for name in DATASETS for cell in _changed(by_dataset.get(name), name, algorithm)),
            ]
            for (changed, label), by_dataset in found.items()
            if changed == algorithm
        ]
    return table(head, rows) + f"\n\n{_WORDS}"


def by_option(best: Shelf) -> dict[tuple[str, str], dict[str, Ablation]]:
    """What was changed alone, by algorithm and the change in words, then by dataset; what costs most first."""
    found: dict[tuple[str, str], dict[str, Ablation]] = {}
    for one in ablations([result.run for result in best.results]):
        label = f"`{one.option}` {plain(one.first.changes[one.option])}"
        found.setdefault((one.first.algorithm, label), {})[one.first.dataset] = one
    return found


def _missing(dataset: str, algorithm: str) -> list[str]:
    """Recognition is measured on Digits only."""
    first = "not run yet" if algorithm == "dgdmn" or dataset == "digits" else "–"
    return [first, *("–" for _ in _COLUMNS[1:])]


def _whole(shelf: Shelf, dataset: str, algorithm: str) -> list[str]:
    runs = shelf.find(dataset, algorithm, BEST)
    if not runs:
        return _missing(dataset, algorithm)
    taken = mean([one.run.trained_seconds for one in on_one_machine(runs)])
    kept = mean([one.run.memory_bytes for one in runs])
    return [said(values(runs, acc)), said(values(runs, bwt)), "–", seconds(taken), size(kept)]


def _changed(one: Ablation | None, dataset: str, algorithm: str) -> list[str]:
    if one is None:
        return _missing(dataset, algorithm)
    return [
        said(one.acc),
        said(one.bwt),
        signed(mean(one.differences)),
        seconds(one.seconds[1]),
        size(one.bytes[1]),
    ]
