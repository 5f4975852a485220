"""scikit-learn's own classifiers as rows of a comparison. They are not saved; a killed run starts again."""

import copy
from abc import abstractmethod
from typing import Any, ClassVar, NoReturn, final

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dgdmn.algorithms.closed_form import ClosedFormClassifier, FeatureSpec
from dgdmn.algorithms.fitted import Memory
from dgdmn.core.batch import Batch
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.features.tables import Scale
from dgdmn.memory.gaussian import Doubles
from dgdmn.storage import State

TREES = 100
MAX_ITERATIONS = 300


class ReferenceClassifier(ClosedFormClassifier):
    """A classifier of scikit-learn behind a front end."""

    fills_missing: ClassVar[bool] = True

    @abstractmethod
    def _new_model(self, seed: int) -> Any:
        """An unfitted classifier of scikit-learn."""

    def _new_memory(self, factory: FeatureSpec, n_classes: int, rng: SeedStream) -> Memory:
        seed = int(rng.next_numpy().integers(2**31))
        return _Wrapped(self._new_model(seed), n_classes, factory.config.code_seed)

    def memory_bytes(self) -> int:
        """Bytes of the arrays of the fitted classifier."""
        memory = self.fitted_.memory
        assert isinstance(memory, _Wrapped)
        return _array_bytes(memory.model)


@final
class SGD(ReferenceClassifier):
    """`SGDClassifier` with the logistic loss: one pass over each task."""

    def _new_model(self, seed: int) -> Any:
        return SGDClassifier(loss="log_loss", random_state=seed)


@final
class GNB(ReferenceClassifier):
    """`GaussianNB`: means and variances of each class."""

    def _new_model(self, seed: int) -> Any:
        return GaussianNB()


@final
class Logistic(ReferenceClassifier):
    """`LogisticRegression` on standardized features of all rows at once: a ceiling."""

    def _new_model(self, seed: int) -> Any:
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=MAX_ITERATIONS))


@final
class Forest(ReferenceClassifier):
    """`RandomForestClassifier` on all rows at once: a ceiling."""

    def _new_model(self, seed: int) -> Any:
        return RandomForestClassifier(TREES, random_state=seed)


class _Wrapped:
    """A classifier of scikit-learn that sees features on the scale of the first call."""

    def __init__(self, model: Any, n_classes: int, seed: int) -> None:
        self.model, self.n_classes, self.seed = model, n_classes, seed
        self.scale: Scale | None = None

    def learn(self, task: str | None, new: Batch, ctx: Context) -> None:
        if self.scale is not None and not hasattr(self.model, "partial_fit"):
            raise UsageError("this method learns all rows at once; use fit, or run with --together")
        self.scale = self.scale or Scale.fit(np.asarray(new.x, np.float64), self.seed)
        model, x = copy.deepcopy(self.model), self.scale.apply(new.x).astype(np.float32)
        if hasattr(model, "partial_fit"):
            self.model = model.partial_fit(x, new.y, classes=np.arange(self.n_classes))
        else:
            self.model = model.fit(x, new.y)

    def sleep(self, ctx: Context) -> None:
        """Do nothing: there is no short-term memory."""

    def predict_proba(self, x: NDArray[Any], task: str | None) -> NDArray[Any]:
        assert self.scale is not None
        answers = np.zeros((len(x), self.n_classes))
        with np.errstate(divide="ignore"):  # GaussianNB: the prior of a class to come is 0
            found = self.model.predict_proba(self.scale.apply(x).astype(np.float32))
        answers[:, self.model.classes_] = np.nan_to_num(found)
        return answers

    def column_moments(self, d: int) -> tuple[Doubles, Doubles, float]:
        """Mean and variances of the first d features from the first call; the third value is not used."""
        assert self.scale is not None
        return self.scale.center[:d], self.scale.spread[:d] ** 2, 1.0

    def grow(self, n_classes: int) -> None:
        advice = "name every label in classes= of the first call"
        raise UsageError(f"{advice}; this method cannot add one")

    def state(self) -> State:
        """Nothing: it is not saved."""
        return {}

    def load_state(self, state: State) -> NoReturn:
        raise UsageError("this method cannot be loaded; run it again")


def _array_bytes(model: Any) -> int:
    """Bytes of all arrays in a fitted classifier; a tree counts its nodes."""
    if hasattr(model, "steps"):
        return sum(_array_bytes(step) for _, step in model.steps)
    if hasattr(model, "estimators_"):
        nodes = [one.tree_.__getstate__() for one in model.estimators_]
        return sum(state["nodes"].nbytes + state["values"].nbytes for state in nodes)
    return sum(value.nbytes for value in vars(model).values() if isinstance(value, np.ndarray))
