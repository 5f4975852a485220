"""What `dgdmn run --show-config` prints: what would run, as TOML with the source of every number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dgdmn.presets import as_dict, sources_of

if TYPE_CHECKING:  # numpy waits until the arguments are parsed, so that --help is quick
    from dgdmn.experiments.spec import RunSpec


def configuration(specs: Sequence[RunSpec]) -> str:
    """The runs, then a table of options; one for each preset where there are several."""
    first = specs[0]
    by_preset = {spec.preset: spec for spec in specs}
    several = len(by_preset) > 1
    names = [f"{spec.algorithm}:{spec.preset}" if several else spec.algorithm for spec in specs]
    top = {
        "dataset": first.dataset,
        "algorithm": list(dict.fromkeys(names)),
        "preset": list(by_preset) if several else first.preset,
        "seed": list(dict.fromkeys(spec.seed for spec in specs)),
        "evaluate_on": first.evaluate_on,
        "revise": list(first.revise),
        "together": first.together,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in top.items()]
    for name, spec in by_preset.items():
        lines += ["", f"[options.{name}]" if several else "[options]", *_options(spec)]
    return "\n".join(lines) + "\n"


def _options(spec: RunSpec) -> list[str]:
    docs, changed = sources_of(spec.preset, spec.dataset), spec.changes()
    return [
        f"{key} = {json.dumps(value)}  # {'changed; ' if key in changed else ''}{docs[key]}"
        for key, value in as_dict(spec.options).items()
    ]
