"""Front ends: fixed maps from images and tables to features (`features=` of an estimator)."""

from dgdmn.features.front_end import FeatureFunction, FrontEnd, Kind, choose

__all__ = ["FeatureFunction", "FrontEnd", "Kind", "choose"]
