"""The presets `best` (ours), `deep` (ours, with VAEs), `paper` (appendix B) and `quick`, read from presets.toml."""

import re
import tomllib
from dataclasses import replace
from importlib.resources import files
from typing import Any

from dgdmn.config.config import Config

_TEXT = (files("dgdmn.config") / "presets.toml").read_text("utf-8")
_DATA: dict[str, dict[str, Any]] = tomllib.loads(_TEXT)

PAPER = {stream: Config(**options) for stream, options in _DATA["paper"].items()}
"""The `paper` preset of each stream."""
DEFAULT_PRESET = "best"


def paper(stream: str | None) -> Config:
    """Appendix B for a stream; for own arrays the sizes of Digits with an output layer that grows."""
    return Config() if stream is None else PAPER[stream]


def deep(stream: str | None) -> Config:
    """`deep` for a stream, on top of `paper`; or for own arrays."""
    data = _DATA["deep"]
    if stream is None:
        return Config(**{**data["all"], **data["arrays"]})
    return replace(PAPER[stream], **{**data["all"], **data["streams"], **data.get(stream, {})})


def best(stream: str | None) -> Config:
    """What we recommend: the dual memory with mixtures; networks as in `deep`, for methods that have them."""
    return replace(deep(stream), **_DATA["best"])


def quick(stream: str | None) -> Config:
    """The paper's networks in under a minute: fewer samples and epochs."""
    base = paper(stream)
    return replace(base, n_max=min(base.n_max, 2_000), **_DATA["quick"])


PRESETS = {"best": best, "deep": deep, "paper": paper, "quick": quick}
"""By name. `best` is what we recommend now; the others are fixed."""


def paper_sources(stream: str) -> dict[str, str]:
    """Source of each value of `paper` for a stream that differs from Digits: the comment behind it."""
    section = re.split(r"^\[", _TEXT.partition(f"[paper.{stream}]\n")[2], flags=re.MULTILINE)[0]
    return dict(re.findall(r"^(\w+) = [^#\n]*# (.+)$", section, flags=re.MULTILINE))
