"""What the generative algorithms add: dreams and reconstructions in the user's own terms."""

import numpy as np
import pytest

from dgdmn import DGDMN, DGR, NN
from dgdmn.errors import DgdmnError, UsageError

RNG = np.random.default_rng(0)
TABLE = np.concatenate([RNG.normal(centre, 0.5, size=(60, 3)) for centre in (-5, 0, 5)])
LABELS = np.repeat([0, 1, 2], 60)


@pytest.mark.parametrize("estimator", [DGR, DGDMN])
def test_dreams_are_in_the_range_learnt(estimator):
    model = estimator(random_state=0, value_range=(-8, 8)).fit(TABLE, LABELS)
    x, y = model.sample(300)
    assert x.min() < -2
    assert x.max() > 2
    assert (model.predict(x) == y).mean() > 0.75, "a dream is what its label says"
    assert np.abs(model.reconstruct(TABLE) - TABLE).mean() < 2


def test_dreams_repeat_and_touch_no_global_generator():
    model = DGR(random_state=0, min_steps=5).fit(TABLE, LABELS)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = model.sample(4)[0], model.sample(4)[0], model.sample(4, random_state=1)[0]
    assert (first == again).all()
    assert not (first == other).all()
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@pytest.mark.parametrize("ask", ["sample", "reconstruct", "predict_long_term"])
def test_a_long_term_memory_that_never_slept_says_so(ask):
    model = DGDMN(random_state=0, min_steps=5, n_stm=3).partial_fit(TABLE, LABELS, task="a")
    with pytest.raises(UsageError, match="knows nothing yet"):
        getattr(model, ask)(*([2] if ask == "sample" else [TABLE]))
    model.sleep()
    getattr(model, ask)(*([2] if ask == "sample" else [TABLE]))


def test_the_first_of_single_class_tasks_is_not_lost_without_classes():
    for seed in range(4):
        model = DGDMN(random_state=seed, value_range=(-8, 8), n_stm=3)
        for label in (0, 1):
            model.partial_fit(TABLE[label == LABELS], LABELS[label == LABELS], task=str(label))
        assert model.score(TABLE[LABELS == 0], LABELS[LABELS == 0]) > 0.9, seed
        model.sleep()
        assert model.predict(TABLE[LABELS == 0], task="0").mean() < 0.1, seed


def test_a_diverging_training_is_an_error_and_changes_nothing():
    model = NN(random_state=0).fit(TABLE, LABELS)
    before = model.predict_proba(TABLE)
    model.set_params(learning_rate=1e30)
    with pytest.raises(DgdmnError, match=r"loss is .* after epoch"):
        model.fit(TABLE, LABELS)
    assert (model.predict_proba(TABLE) == before).all()


@pytest.mark.parametrize(
    "wrong",
    [{"kappa": "a"}, {"latent": 2.5}, {"n_max": True}, {"n_stm": 1.5}, {"learning_rate": np.inf}, {"rho": 1.0},
     {"learner_layers": 5}, {"learner_layers": (0,)}, {"preset": 3}, {"threads": 1.5}, {"device": "abacus"},
     {"value_range": (1, 2, 3)}, {"value_range": ([0, 0], [1, 1])}, {"age": "old"}],
    ids=str,
)  # fmt: skip
def test_a_wrong_parameter_is_one_sentence(wrong):
    if "rho" in wrong:
        from dgdmn.presets import ARRAYS, overridden

        with pytest.raises(UsageError, match="below 1"):
            overridden(ARRAYS, wrong)
        return
    with pytest.raises(UsageError) as error:
        DGDMN(**wrong).fit(TABLE, LABELS)
    assert next(iter(wrong)) in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_labels_of_several_kinds_and_too_many_axes_are_refused():
    with pytest.raises(UsageError, match="several kinds"):
        NN().fit(TABLE[:3], np.array(["a", None, "b"], dtype=object))
    with pytest.raises(UsageError, match=r"must be \(n, d\)"):
        NN().fit(np.zeros((4, 2, 2, 2, 2)), [0, 1, 0, 1])
