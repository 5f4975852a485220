"""What the generative algorithms add: samples, reconstructions, latents and recognition."""

import numpy as np
import pytest
import torch

from dgdmn import DGDMN, DGR, NN, DGDMNRecog
from dgdmn.config import override, resolve
from dgdmn.core.errors import DgdmnError, UsageError

RNG = np.random.default_rng(0)
TABLE = np.concatenate([RNG.normal(center, 0.5, size=(60, 3)) for center in (-5, 0, 5)])
LABELS = np.repeat([0, 1, 2], 60)


@pytest.mark.parametrize("estimator", [DGR, DGDMN])
def test_samples_are_in_the_range_learned(estimator):
    model = estimator("deep", random_state=0, value_range=(-8, 8), min_steps=300)
    model.fit(TABLE, LABELS)
    x, y = model.sample(300)
    assert x.min() < -2
    assert x.max() > 2
    assert (model.predict(x) == y).mean() > 0.75, "samples do not fit their labels"
    assert np.abs(model.reconstruct(TABLE) - TABLE).mean() < 2


def test_samples_repeat_and_use_no_global_generator():
    model = DGR("deep", random_state=0, min_steps=5).fit(TABLE, LABELS)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = model.sample(4)[0], model.sample(4)[0], model.sample(4, random_state=1)[0]
    assert (first == again).all()
    assert not (first == other).all()
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    with pytest.raises(UsageError, match="n is 0; it must be a whole number"):
        model.sample(0)


@pytest.mark.parametrize("method", ["sample", "reconstruct", "predict_long_term", "latents"])
def test_a_long_term_memory_that_is_empty_says_so(method):
    model = DGDMN("deep", random_state=0, min_steps=5, n_stm=3)
    model.partial_fit(TABLE, LABELS, task="a")
    arguments = [2] if method == "sample" else [TABLE]
    with pytest.raises(UsageError, match="long-term memory is empty"):
        getattr(model, method)(*arguments)
    model.sleep()
    getattr(model, method)(*arguments)


@pytest.mark.parametrize("estimator", [DGR, DGDMN, DGDMNRecog])
def test_latents_are_the_long_term_memorys_codes_of_scaled_rows(estimator):
    model = estimator("deep", random_state=0, value_range=(-10, 10), min_steps=5, latent_dim=3)
    model.fit(TABLE, LABELS)
    assert model.has_latents()
    found = model.latents(TABLE)
    assert (found.dtype, found.shape) == (np.float32, (180, 3))
    encoder = model.fitted_.memory.ltm.generator
    rows = torch.from_numpy(((TABLE + 10) / 20).astype(np.float32))
    np.testing.assert_allclose(found, encoder.encode(rows)[0].detach(), atol=1e-5)


def test_a_generator_without_latents_says_so(doubles):
    made = doubles()
    model = DGR("paper", random_state=0, generator=made.generator, learner=made.learner)
    model.fit(TABLE, LABELS)
    assert not model.has_latents()
    with pytest.raises(UsageError, match="StoringGenerator has no latents"):
        model.latents(TABLE)


def test_the_first_task_of_one_class_is_not_lost_when_classes_are_not_given():
    model = DGDMN("deep", random_state=0, value_range=(-8, 8), n_stm=3, min_steps=300)
    for label in (0, 1):
        model.partial_fit(TABLE[label == LABELS], LABELS[label == LABELS], task=str(label))
    assert model.score(TABLE[LABELS == 0], LABELS[LABELS == 0]) > 0.9
    model.sleep()
    assert model.predict(TABLE[LABELS == 0], task="0").mean() < 0.1


def test_a_diverging_training_is_an_error_and_changes_nothing():
    model = NN("deep", random_state=0, min_steps=20).fit(TABLE, LABELS)
    before = model.predict_proba(TABLE)
    model.set_params(learning_rate=1e30)
    with pytest.raises(DgdmnError, match=r"loss is .* after epoch"):
        model.fit(TABLE, LABELS)
    assert (model.predict_proba(TABLE) == before).all()


WRONG = [
    {"kappa": "a"},
    {"latent_dim": 2.5},
    {"n_max": True},
    {"n_stm": 1.5},
    {"learning_rate": np.inf},
    {"learner_layers": 5},
    {"learner_layers": (0,)},
    {"code_buffer": 1},
    {"predict_with": "both"},
    {"age": "old"},
    {"preset": 3},
    {"threads": 1.5},
    {"device": "abacus"},
    {"value_range": (1, 2, 3)},
    {"value_range": ([0, 0], [1, 1])},
]


WRONG_FOR_A_MIXTURE = [
    {"memory_budget": 10},
    {"code_dim": -1},
    {"own_covariance": 2},
    {"shrinkage": -1},
    {"features": "sift"},
    {"code_seed": 1.5},
    {"image_shape": (5, 5)},
    {"scale": 3},
    {"n_stm": 0},
    {"threads": 2000},
]


@pytest.mark.parametrize(
    ("preset", "wrong"),
    [*(("deep", one) for one in WRONG), *(("best", one) for one in WRONG_FOR_A_MIXTURE)],
    ids=str,
)
def test_a_wrong_parameter_gives_one_sentence(preset, wrong):
    with pytest.raises(UsageError) as error:
        DGDMN(**{"preset": preset, **wrong}).fit(TABLE, LABELS)
    assert next(iter(wrong)) in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_a_decay_of_1_is_refused():
    with pytest.raises(UsageError, match=r"rho \(ρ\) is 1.0; it must be below 1"):
        override(resolve("deep"), {"rho": 1.0})


def test_mixed_labels_and_too_many_axes_are_refused():
    with pytest.raises(UsageError, match="mixes kinds"):
        NN().fit(TABLE[:3], np.array(["a", 1, "b"], dtype=object))
    with pytest.raises(UsageError, match=r"1 missing label \(first in row 1\)"):
        NN().fit(TABLE[:3], np.array(["a", None, "b"], dtype=object))
    with pytest.raises(UsageError, match=r"must be \(n, d\)"):
        NN().fit(np.zeros((4, 2, 2, 2, 2)), [0, 1, 0, 1])


def stripes(label, n=40):
    """8 × 8 images: another quarter of each has ink."""
    ink = np.arange(8)[:, None] // 2 == label
    return np.where(ink, 0.9, 0.02) + np.zeros((n, 8, 8)) + RNG.uniform(0, 0.08, (n, 8, 8))


def recognizing(labels, task=None, **options):
    """DGDMN-recog after tasks of one class each."""
    model = DGDMNRecog(
        "paper",
        random_state=0,
        min_steps=200,
        generator_layers=(32,),
        sttm_generator_layers=(32,),
        learning_rate=0.004,
        latent_dim=4,
        sttm_latent_dim=2,
        **options,
    )
    for label in labels:
        model.partial_fit(stripes(label), np.full(40, label), task=task)
    return model


@pytest.fixture(scope="module")
def model():
    """Two tasks are consolidated and one is awake; no task was named."""
    return recognizing((0, 1, 2))


def test_recognition_says_which_memory_answers_and_what_is_unknown(model):
    assert model.awake_tasks() == ("task 3",)
    for label, memory in enumerate(["long-term memory", "long-term memory", "task 3"]):
        found = model.recognize(stripes(label))
        assert found.memories == ("task 3", "long-term memory")
        assert set(found.answered_by) == {memory}
        assert found.known.all()
        assert (model.predict(stripes(label)) == label).all()
    unknown = model.recognize(stripes(3))
    assert not unknown.known.any()
    assert (unknown.losses > 1.55).all()
    assert set(unknown.answered_by) == {"long-term memory"}


def test_a_batch_is_judged_as_one_task_unless_samples_are_judged_alone(model):
    mixed = np.concatenate([stripes(0, 30), stripes(2, 10)])
    assert len(set(model.recognize(mixed).answered_by)) == 1
    per_sample = recognizing((0, 1, 2), recognize_per="sample")
    answered_by = per_sample.recognize(mixed).answered_by.tolist()
    assert answered_by == ["long-term memory"] * 30 + ["task 3"] * 10


def test_dgdmn_recog_ignores_task_names():
    named = recognizing((0, 1, 2), task="always the same")
    assert len(named.consolidated_tasks()) == 2
    assert (named.predict(stripes(0), task="task 3") == 0).all()


def test_a_task_met_again_is_recognized_and_counted():
    again = recognizing((0, 1, 0, 2))
    times = {task: entry.times for task, entry in again.info().consolidated.items()}
    assert times == {"task 1": 2, "task 2": 1, "task 3": 1}


def test_info_names_the_settings_that_predictions_use_before_the_first_sleep():
    rng = np.random.default_rng(0)
    model = DGDMN(n_stm=3).partial_fit(rng.normal(size=(60, 80)), np.arange(60) % 2, task="a")
    ltm, *awake = model.fitted_.snapshot().memory.copy_memories()
    assert model.info().chosen["own_covariance"] == ltm.frozen(awake).setting[1] == 1.0
