"""Whether what the paper's networks never learnt is what clipped probabilities leave without a gradient."""

from __future__ import annotations

from dgdmn import paper
from dgdmn.report.colours import display_name
from dgdmn.report.reproducibility.goals import BASELINES
from dgdmn.report.reproducibility.not_learnt import how_many
from dgdmn.report.reproducibility.numbers import Shelf, acc, bwt, mean, said, short, table, values
from dgdmn.report.reproducibility.verdicts import judge
from dgdmn.report.words import dataset_name

CLIPPED = "clip_probability 1e-07"
"""The setting of a run with Keras's loss."""
SHOWN = tuple((dataset, name) for dataset in ("digits", "shapes", "hindi") for name in BASELINES)


def clipping_table(shelf: Shelf) -> str:
    """ACC and BWT with either loss beside the paper's, and how many tasks were not learnt with the clipped one."""
    rows = []
    for dataset, name in SHOWN:
        published = paper.published(name, dataset)
        exact, clipped = (shelf.find(dataset, name, how) for how in ("", CLIPPED))
        assert published is not None
        cells = [f"{display_name(name)}, {dataset_name(dataset)}"]
        for value, theirs in ((acc, published.acc), (bwt, published.bwt)):
            ours = values(clipped, value)
            cells += [
                said(values(exact, value)),
                f"**{said(ours)}**",
                f"{short(theirs)}; {judge(ours, theirs)}",
            ]
        rows.append([*cells, f"{mean(values(clipped, how_many)):.1f}" if clipped else "–"])
    head = [
        "",
        "ACC, exact",
        "ACC, clipped",
        "paper's; verdict",
        "BWT, exact",
        "BWT, clipped",
        "paper's; verdict",
    ]
    return table([*head, "tasks not learnt, clipped"], rows)
