"""What each option is worth: a line for each that was changed alone."""

from dataclasses import dataclass

from dgdmn.report.ablations import Ablation, ablations
from dgdmn.report.colours import css_class, display_name
from dgdmn.report.entries import TOGETHER, Dataset, mean_and_error
from dgdmn.report.words import ratio, seconds, with_error
from dgdmn.wording import counted, size


@dataclass(frozen=True)
class Changed:
    """A line of the table, as text."""

    name: str
    """Algorithm and preset."""
    css: str
    option: str
    change: str
    acc: str
    bwt: str
    difference: str
    seconds: str
    """Training time without the change, and with it."""
    memory: str
    """Bytes of the memory, likewise."""
    seeds: str


def ablation(dataset: Dataset) -> tuple[Changed, ...]:
    """A line for each option that was changed alone, where the same run without the change is there too."""
    return tuple(map(_changed, ablations(dataset.runs)))


def _changed(one: Ablation) -> Changed:
    how = [TOGETHER] if one.first.together else []
    how += [f"on {one.first.evaluate_on} rows"] if one.first.evaluate_on != "test" else []
    return Changed(
        ", ".join([f"{display_name(one.first.algorithm)} ({one.first.preset})", *how]),
        css_class(one.first.algorithm),
        one.option,
        one.change,
        with_error(*mean_and_error(one.acc)),
        with_error(*mean_and_error(one.bwt)),
        signed(*mean_and_error(one.differences)),
        " → ".join(map(seconds, one.seconds)),
        " → ".join(map(size, one.bytes)),
        counted(len(one.pairs), "seed"),
    )


def signed(mean: float, error: float) -> str:
    """A difference, with its sign.

    >>> signed(0.0123, float("nan")), signed(-0.2, 0.01), signed(-0.0001, float("nan"))
    ('+0.012', '−0.200 ± 0.010', '0.000')
    """
    told = with_error(mean, error)
    return f"+{told}" if ratio(mean).strip("0.") and mean > 0 else told
