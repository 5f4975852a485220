"""Front ends: fixed maps from images and tables to features (`features=` of an estimator)."""

from dgdmn.features.front_end import FrontEnd, Kind, Own, choose

__all__ = ["FrontEnd", "Kind", "Own", "choose"]
