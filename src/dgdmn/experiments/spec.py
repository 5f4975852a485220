"""What decides a run: a dataset, an algorithm, a preset, a seed (no torch in here)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dgdmn import presets
from dgdmn.errors import UsageError
from dgdmn.presets import Preset
from dgdmn.records import RunRecord, run_name


@dataclass(frozen=True)
class RunSpec:
    """Everything that decides what a run computes, and on how many threads."""

    dataset: str
    algorithm: str
    preset: str
    options: Preset
    """The preset of that name for the dataset, with the user's own changes."""
    seed: int = 0
    evaluate_on: Literal["test", "validation"] = "test"
    device: str = "cpu"
    threads: int = 1

    @property
    def name(self) -> str:
        """The run directory's name; what differs from the preset is part of it."""
        changes = [f"{key}-{_short(value)}" for key, value in self.changes().items()]
        on = ["on-validation"] if self.evaluate_on == "validation" else []
        return run_name(self.dataset, self.algorithm, "-".join([self.preset, *changes, *on]), self.seed)

    def changes(self) -> dict[str, Any]:
        """The options that are not the preset's."""
        base = presets.as_dict(presets.preset(self.preset, self.dataset))
        return {key: value for key, value in presets.as_dict(self.options).items() if value != base[key]}

    def identity(self) -> dict[str, Any]:
        """What must be equal for a recorded run to be this one."""
        return {
            "dataset": self.dataset,
            "algorithm": self.algorithm,
            "preset": self.preset,
            "seed": self.seed,
            "evaluate_on": self.evaluate_on,
            "options": presets.as_dict(self.options),
        }


def recorded(spec: RunSpec, out: Path) -> RunRecord | None:
    """What is recorded of this run, whether it has ended or not; another computation there is refused."""
    directory = out / spec.name
    if not (directory / "config.json").exists():
        return None
    record = RunRecord.read(directory)
    for key, ours in _flat(spec.identity()).items():
        theirs = _flat(record.config).get(key)
        if theirs != ours:
            raise UsageError(
                f"{directory} holds a run with {key} = {theirs}, not {ours}; remove it, or choose another --out"
            )
    return record


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    return {**config, **config.get("options", {}), "options": None}


def _short(value: Any) -> str:
    return ".".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
