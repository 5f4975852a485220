"""What algorithms with neural networks share: their options, scaling to [0, 1], torch. Imports torch when used."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dgdmn.algorithms.estimator import ContinualClassifier
from dgdmn.algorithms.scaling import Scaling

if TYPE_CHECKING:
    from dgdmn.algorithms.checks import Array, Weights
    from dgdmn.algorithms.fitted import Inputs
    from dgdmn.config import Config
    from dgdmn.networks.protocols import LearnerFactory
    from dgdmn.storage import State


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkClassifier(ContinualClassifier):
    """A classifier made of networks. Its memory sees inputs scaled to [0, 1]."""

    fills_missing: ClassVar[bool] = True

    learner_layers: tuple[int, ...] | None = None
    learner_convolutions: tuple[int, ...] | None = None
    min_steps: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    momentum: float | None = None
    lr_schedule: Literal["constant", "one_cycle"] | None = None
    learner: LearnerFactory | None = None
    """Makes your own learners (`dgdmn.networks.protocols`)."""
    value_range: tuple[Any, Any] | None = None
    """(low, high) of all values to come. By default uint8 is 0-255, values in [0, 1] stay as they are, and any
    other range is that of the first task."""
    device: str = "cpu"

    def _new_inputs(self, X: Array, config: Config, weight: Weights = None) -> Inputs:
        columns = getattr(self, "columns_", None)
        return Scaling.fit(X, self.value_range, None if columns is None else columns.is_coded)

    def _load_inputs(self, state: State, shape: tuple[int, ...], config: Config) -> Inputs:
        return Scaling.restore(state.pop("scaling"), shape)

    def _factory(self, config: Config, inputs: Inputs, shape: tuple[int, ...]) -> Any:
        from dgdmn.networks.factory import NetworkFactory
        from dgdmn.networks.runtime import check_device

        check_device(self.device)
        return NetworkFactory(config, shape, self.device, own_learner=self.learner)

    def _empty_weights(self) -> AbstractContextManager[None]:
        from dgdmn.networks.layers import meta_weights

        return meta_weights()

    def _limits(self) -> AbstractContextManager[None]:
        from dgdmn.networks.runtime import use_threads

        return use_threads(self.threads)
