"""What a memory that dreams can do beyond predicting; and a stream whose answer is known."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from dgdmn.errors import UsageError


def known_tasks(n_tasks=4):
    rng = np.random.default_rng(0)
    return [(rng.random((5 + number, 3)), np.full(5 + number, number)) for number in range(n_tasks)]


def pairs(x, y):
    return sorted((row.tolist(), int(label)) for row, label in zip(x, y, strict=True))


@pytest.mark.parametrize("name", ["dgdmn", "dgr"])
def test_perfect_dreams_hand_the_learner_the_union_of_all_tasks(name, make, doubles):
    made = doubles()
    model = make(name, n_stm=1, n_max=10**6, generator=made.generator, learner=made.learner)
    so_far = []
    for number, (X, y) in enumerate(known_tasks()):
        model.partial_fit(X, y, task=str(number))
        so_far += pairs(X.astype(np.float32), y)
        last = made.log.trained("learner")[-1]
        assert pairs(last.x, last.y) == sorted(so_far)
    for X, y in known_tasks():
        assert np.array_equal(model.predict_long_term(X), y)


def test_consolidated_and_awake_tasks(make, tasks):
    model = make("dgdmn", n_stm=2)
    model.partial_fit(*tasks[0], task="a")
    assert (model.awake_tasks(), model.consolidated_tasks()) == (("a",), ())
    model.partial_fit(*tasks[1], task="b")
    assert (model.awake_tasks(), model.consolidated_tasks()) == ((), ("a", "b"))
    model.partial_fit(*tasks[2], task="c").sleep()
    assert (model.awake_tasks(), model.consolidated_tasks()) == ((), ("a", "b", "c"))


def test_fit_sleeps(generative, make, tasks):
    model = make(generative).fit(*tasks[0])
    assert (model.awake_tasks(), model.consolidated_tasks()) == ((), ("task 1",))


def test_sleeping_twice_is_sleeping_once(generative, make, tasks):
    X = tasks[0][0]
    model = make(generative).partial_fit(*tasks[0]).sleep()
    before = model.predict_proba(X)
    assert np.array_equal(model.sleep().predict_proba(X), before)


def test_dreams_have_the_shape_and_labels_learnt(generative, make, tasks):
    model = make(generative).partial_fit(*tasks[0]).partial_fit(*tasks[1])
    X, y = model.sample(5, random_state=3)
    assert X.shape == (5, 6, 6)
    assert X.min() >= 0
    assert X.max() <= 1
    assert set(y) <= {0, 1}
    again = model.sample(5, random_state=3)
    assert np.array_equal(X, again[0])
    assert np.array_equal(y, again[1])
    assert not np.array_equal(X, model.sample(5, random_state=4)[0])
    with pytest.raises(UsageError, match="n is 0"):
        model.sample(0)


def test_dreaming_and_looking_leave_no_trace(generative, make, tasks):
    model, twin = (make(generative).partial_fit(*tasks[0], task="a") for _ in range(2))
    model.sample(5, random_state=1)
    model.reconstruct(tasks[1][0])
    model.predict_long_term(tasks[1][0])
    for each in (model, twin):
        each.partial_fit(*tasks[1], task="b")
    assert np.array_equal(model.predict_proba(tasks[0][0]), twin.predict_proba(tasks[0][0]))


def test_reconstructions_look_like_what_was_learnt(generative, make, tasks):
    X, y = tasks[0]
    model = make(generative, min_steps=150, beta=0.02).fit(X * 10, y)
    seen = model.reconstruct(X * 10)
    assert seen.shape == X.shape
    assert seen.dtype == np.float32
    scaled = (X - X.min()) / (X.max() - X.min())
    assert np.abs(seen - scaled).mean() < np.abs(scaled.mean() - scaled).mean() / 2


def test_the_long_term_memory_answers_alone(make, tasks):
    model = make("dgdmn", n_stm=2, min_steps=100)
    model.partial_fit(*tasks[0], task="a").partial_fit(*tasks[1], task="b")
    model.partial_fit(*tasks[2], task="c")
    X, y = tasks[2]
    assert (model.predict(X, task="c") == y).all()
    assert not (model.predict_long_term(X) == y).all(), "it has not slept since"
    assert np.array_equal(model.predict_long_term(X), model.predict(X, task="a"))


def test_without_a_task_samples_are_shared_out(make, doubles):
    made = doubles()
    model = make("dgdmn", n_stm=3, generator=made.generator, learner=made.learner)
    tasks = known_tasks(2)
    for number, (X, y) in enumerate(tasks):
        model.partial_fit(X, y, task=str(number))
    assert model.awake_tasks() == ("0", "1")
    mixed = np.concatenate([tasks[1][0], tasks[0][0]])
    assert model.predict(mixed).tolist() == [1] * 6 + [0] * 5


def test_a_task_name_may_be_a_number(generative, make, tasks):
    model = make(generative, n_stm=1).partial_fit(*tasks[0], task=3)
    assert model.consolidated_tasks() == ("3",)
    assert np.array_equal(model.predict(tasks[0][0], task=3), model.predict(tasks[0][0], task="3"))


def test_convolutions_from_the_estimator(generative, make, tasks):
    model = make(
        generative, generator_convolutions=(3,), learner_convolutions=(3,), sttm_generator_convolutions=(3,),
        sttm_learner_convolutions=(3,), n_stm=1,
    )  # fmt: skip
    for X, y in tasks:
        model.partial_fit(X, y)
    assert model.sample(2, random_state=0)[0].shape == (2, 6, 6)


def test_unfitted(generative, make):
    model = make(generative)
    for ask in (model.sleep, model.sample, model.consolidated_tasks, lambda: model.reconstruct([[0.0]])):
        with pytest.raises(NotFittedError):
            ask()
