"""What decides a run: a dataset, an algorithm, a preset, a seed (no torch in here)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from dgdmn import presets
from dgdmn.errors import UsageError
from dgdmn.presets import Preset
from dgdmn.records import RunRecord, run_name

_LONG = 160
"""Letters of changed options in a run's name; more are summed up, for a file name has at most 255 bytes."""


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
    revise: tuple[int, ...] = ()
    """Tasks, counted from 1, that come once more after the whole stream (appendix A, revision)."""
    together: bool = False
    """All tasks at once, as one: the paper's joint training of a memory. Tests stay one for each task."""
    device: str = "cpu"
    threads: int = 1

    def __post_init__(self) -> None:
        if self.together and self.revise:
            raise UsageError(
                f"revise names task {self.revise[0]}, but together has all tasks at once: leave one of them out"
            )
        if self.options.tdigits != "forty" and self.dataset != "tdigits":
            raise UsageError(
                f"tdigits is {self.options.tdigits}, but the dataset is {self.dataset}: leave it out"
            )

    @classmethod
    def of(cls, record: RunRecord) -> RunSpec:
        """What was recorded, to be gone on with."""
        config = record.config
        try:
            options = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in config["options"].items()
            }
            return cls(
                config["dataset"],
                config["algorithm"],
                config["preset"],
                presets.overridden(
                    presets.preset("paper", config["dataset"]), options
                ),  # what came later was off
                int(config["seed"]),
                config["evaluate_on"],
                tuple(config.get("revise", ())),
                bool(config.get("together", False)),
                config["device"],
                int(config["threads"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{record.directory}/config.json does not say what to run ({error})") from error

    @property
    def name(self) -> str:
        """The run directory's name; what differs from the preset is part of it."""
        changes = [f"{key}-{_short(value)}" for key, value in self.changes().items()]
        if sum(map(len, changes)) > _LONG:
            changes = [f"{len(changes)}-options-{sha256(repr(changes).encode()).hexdigest()[:8]}"]
        on = ["on-validation"] if self.evaluate_on == "validation" else []
        again = [f"revise-{_short(list(self.revise))}"] if self.revise else []
        at_once = ["together"] if self.together else []
        parts = [self.preset, *changes, *again, *at_once, *on]
        return run_name(self.dataset, self.algorithm, "-".join(parts), self.seed)

    def changes(self) -> dict[str, Any]:
        """The options that are not the preset's."""
        base = presets.as_dict(presets.preset(self.preset, self.dataset))
        return {key: value for key, value in presets.as_dict(self.options).items() if value != base[key]}

    def trained_with(self) -> Preset:
        """The options as the algorithm gets them.

        Together, "all classifiers were provided 20 epochs of training when trained jointly" (appendix B), so
        `learner_epochs` is `joint_epochs`; generators have the same epochs "regardless of the task". A
        short-term memory sleeps after its only task.
        """
        if not self.together:
            return self.options
        return replace(self.options, learner_epochs=self.options.joint_epochs, n_stm=1)

    def identity(self) -> dict[str, Any]:
        """What must be equal for a recorded run to be this one."""
        return {
            "dataset": self.dataset,
            "algorithm": self.algorithm,
            "preset": self.preset,
            "seed": self.seed,
            "evaluate_on": self.evaluate_on,
            "revise": list(self.revise),
            "together": self.together,
            "options": presets.as_dict(self.options),
        }


def recorded(spec: RunSpec, out: Path) -> RunRecord | None:
    """What is recorded of this run, whether it has ended or not; another computation there is refused."""
    directory = out / spec.name
    if not (directory / "config.json").exists():
        return None
    record = RunRecord.read(directory)
    if others := differing(spec, record.config):
        key, (theirs, ours) = next(iter(others.items()))
        raise UsageError(
            f"{directory} holds a run with {key} = {theirs}, not {ours}; remove it, or choose another --out"
        )
    return record


def differing(spec: RunSpec, config: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What a recorded run computes otherwise, theirs and ours; what was not recorded, in older versions, was off.

    Also of a run with another preset: an option that was not there yet was as in `paper`, whatever `best` says of it
    now. The sizes of a short-term memory do not count where an algorithm has none.
    """
    theirs = {**off(spec.dataset), **_flat(config)}
    return {
        key: (theirs.get(key), ours)
        for key, ours in _flat(spec.identity()).items()
        if theirs.get(key) != ours and not presets.idle(spec.algorithm, key)
    }


def off(dataset: str) -> dict[str, Any]:
    """What a run had whose record, of an older version, does not say: what came later was off, as in `paper`."""
    return {"revise": [], "together": False, **presets.as_dict(presets.preset("paper", dataset))}


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    return {**config, **config.get("options", {}), "options": None}


def _short(value: Any) -> str:
    return ".".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
