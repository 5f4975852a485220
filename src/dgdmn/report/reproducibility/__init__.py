"""Ours beside the paper's: what finished runs leave behind, the verdicts, the page and its figures (no torch)."""

from dgdmn.report.reproducibility.collected import Result, collect, read_result
from dgdmn.report.reproducibility.drawing import draw
from dgdmn.report.reproducibility.page import Section, render
from dgdmn.report.reproducibility.readme import with_results
from dgdmn.report.reproducibility.verdicts import Verdict, judge

__all__ = [
    "Result",
    "Section",
    "Verdict",
    "collect",
    "draw",
    "judge",
    "read_result",
    "render",
    "with_results",
]
