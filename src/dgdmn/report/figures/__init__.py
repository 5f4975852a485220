"""Figures for a paper: each function takes runs and gives a matplotlib figure, None where they do not have it.

The axes and the order are those of the paper's figures; colours are `dgdmn.report.colours`. Nothing here touches
pyplot's global state.
"""

from dgdmn.report.figures.curves import accuracy_curves, revision_curves
from dgdmn.report.figures.dreams import dream_sheet
from dgdmn.report.figures.forgetting import forgetting_curves, long_stream
from dgdmn.report.figures.latent import latent_maps
from dgdmn.report.figures.recognition import recognition_losses
from dgdmn.report.figures.resilience import resilience_curves

__all__ = [
    "accuracy_curves",
    "dream_sheet",
    "forgetting_curves",
    "latent_maps",
    "long_stream",
    "recognition_losses",
    "resilience_curves",
    "revision_curves",
]
