"""Every hyperparameter, the presets, and what exists by name. No torch in here."""

from dgdmn.config.config import Config
from dgdmn.config.presets import DEFAULT_PRESET, PAPER, PRESETS
from dgdmn.config.resolve import default_threads, field_docs, override, resolve, sources_of, to_dict

__all__ = ["DEFAULT_PRESET", "PAPER", "PRESETS", "Config"]
__all__ += ["default_threads", "field_docs", "override", "resolve", "sources_of", "to_dict"]
