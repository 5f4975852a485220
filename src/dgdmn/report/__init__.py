"""Read run directories and show them: one HTML page, and figures as files (no torch, nothing that trains)."""

from dgdmn.report.files import figures_beside, write_figures, write_report
from dgdmn.report.page import csp, render
from dgdmn.report.runs import Problem, Run, find_runs, read_runs

__all__ = [
    "Problem",
    "Run",
    "csp",
    "figures_beside",
    "find_runs",
    "read_runs",
    "render",
    "write_figures",
    "write_report",
]
