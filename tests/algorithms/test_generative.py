"""What the generative algorithms add: dreams and reconstructions in the user's own terms."""

import numpy as np
import pytest
import torch

from dgdmn import DGDMN, DGR, NN, DGDMNRecog
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


@pytest.mark.parametrize("ask", ["sample", "reconstruct", "predict_long_term", "latents"])
def test_a_long_term_memory_that_never_slept_says_so(ask):
    model = DGDMN(random_state=0, min_steps=5, n_stm=3).partial_fit(TABLE, LABELS, task="a")
    with pytest.raises(UsageError, match="knows nothing yet"):
        getattr(model, ask)(*([2] if ask == "sample" else [TABLE]))
    model.sleep()
    getattr(model, ask)(*([2] if ask == "sample" else [TABLE]))


@pytest.mark.parametrize("estimator", [DGR, DGDMN, DGDMNRecog])
def test_latents_are_the_long_term_memorys_encoding_of_scaled_rows(estimator):
    model = estimator(random_state=0, value_range=(-10, 10), min_steps=5, latent=3).fit(TABLE, LABELS)
    assert model.has_latents()
    found = model.latents(TABLE)
    assert (found.dtype, found.shape) == (np.float32, (180, 3))
    encoder = model._long_term(model.learnt_).generator
    rows = torch.from_numpy(((TABLE + 10) / 20).astype(np.float32))
    np.testing.assert_allclose(found, encoder.encode(rows)[0].detach(), atol=1e-5)


def test_a_generator_without_latents_says_so(doubles):
    made = doubles()
    model = DGR(random_state=0, generator=made.generator, learner=made.learner).fit(TABLE, LABELS)
    assert not model.has_latents()
    with pytest.raises(UsageError, match="generator StoringGenerator has no latents; make it a Coder"):
        model.latents(TABLE)


def test_the_first_of_single_class_tasks_is_not_lost_without_classes():
    for seed in range(2):
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


def _stripes(label, n=40):
    """8 × 8 images: another quarter of each has ink."""
    ink = np.arange(8)[:, None] // 2 == label
    return np.where(ink, 0.9, 0.02) + np.zeros((n, 8, 8)) + RNG.uniform(0, 0.08, (n, 8, 8))


@pytest.fixture(scope="module")
def awake():
    """Two tasks asleep, one awake, and a fourth that nobody has met; no task was ever named."""
    model = DGDMNRecog("paper", random_state=0, min_steps=300, generator_layers=(32,), sttm_generator_layers=(32,),
                       learning_rate=0.003, latent=4, sttm_latent=2)  # fmt: skip
    for label in (0, 1, 2):
        model.partial_fit(_stripes(label), np.full(40, label))
    return model


def test_recognition_tells_which_memory_answers_and_what_is_unknown(awake):
    assert awake.awake_tasks() == ("task 3",)
    for label, memory in enumerate(["long-term memory", "long-term memory", "task 3"]):
        found = awake.recognise(_stripes(label))
        assert found.memories == ("task 3", "long-term memory")
        assert set(found.answered_by) == {memory}
        assert found.known.all()
        assert (awake.predict(_stripes(label)) == label).all()
    stranger = awake.recognise(_stripes(3))
    assert not stranger.known.any()
    assert (stranger.losses > 1.55).all()
    assert set(stranger.answered_by) == {"long-term memory"}


def test_a_batch_is_one_task_unless_each_sample_is_to_be_judged(awake):
    mixed = np.concatenate([_stripes(0, 30), _stripes(2, 10)])
    assert len(set(awake.recognise(mixed).answered_by)) == 1
    model = DGDMNRecog("paper", random_state=0, min_steps=300, generator_layers=(32,), sttm_generator_layers=(32,),
                       learning_rate=0.003, latent=4, sttm_latent=2, recognise_each="sample")  # fmt: skip
    for label in (0, 1, 2):
        model.partial_fit(_stripes(label), np.full(40, label))
    assert model.recognise(mixed).answered_by.tolist() == ["long-term memory"] * 30 + ["task 3"] * 10


def test_without_descriptors_a_name_changes_nothing(awake):
    named = DGDMNRecog(**awake.get_params())
    for label in (0, 1, 2):
        named.partial_fit(_stripes(label), np.full(40, label), task="always the same")
    assert len(named.consolidated_tasks()) == 2
    assert (named.predict(_stripes(0), task="task 3") == 0).all()


def test_a_task_met_again_is_recognised_and_its_count_rises(awake):
    again = DGDMNRecog(**awake.get_params())
    for label in (0, 1, 0, 2):
        again.partial_fit(_stripes(label), np.full(40, label))
    tasks = again.learnt_.memory.ltm.tasks
    assert {task: entry.times for task, entry in tasks.items()} == {"task 1": 2, "task 2": 1, "task 3": 1}
