"""GEM: the projection against two other solvers, which tasks constrain a step, and which rows are kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from dgdmn.algorithms import gem
from dgdmn.algorithms.gem import project
from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.networks.factory import NetworkFactory
from dgdmn.networks.optimizer import RMSProp

NUMBERS = st.floats(-100, 100, width=32).map(lambda value: 0.0 if abs(value) < 1e-3 else value)


def project_numpy(g, G, margin=0.0):
    return project(torch.as_tensor(g), torch.as_tensor(G), margin).numpy()


def check_no_loss_rises(g, G, margin):
    x = project_numpy(g, G, margin)
    scale = np.linalg.norm(G, axis=1) * max(np.linalg.norm(g), np.linalg.norm(x)) + 1e-30
    assert (G @ x / scale).min() > -1e-5


@given(st.data(), st.integers(1, 6), st.integers(1, 8), st.sampled_from([0.0, 0.5, 2.0]))
def test_a_projected_gradient_raises_no_tasks_loss(data, t, p, margin):
    g = data.draw(arrays(np.float64, p, elements=NUMBERS))
    G = data.draw(arrays(np.float64, (t, p), elements=NUMBERS))
    check_no_loss_rises(g, G, margin)


@pytest.mark.parametrize("seed", [378, 2418, 2795, 7764])
@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_the_same_holds_for_dependent_gradients(seed, margin):
    rng = np.random.default_rng(seed)  # nnls alone stops early on these
    G = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 9))
    check_no_loss_rises(rng.normal(size=9), G, margin)


@pytest.mark.parametrize("seed", range(8))
def test_other_solvers_agree(seed):
    rng = np.random.default_rng(seed)
    G, g = rng.normal(size=(3, 5)), rng.normal(size=5)
    g -= G[0] * max(0, 1.1 * (G[0] @ g) / (G[0] @ G[0]))  # violates at least one constraint
    primal = minimize(
        lambda x: 0.5 * ((x - g) ** 2).sum(),
        g,
        jac=lambda x: x - g,
        method="SLSQP",
        options={"ftol": 1e-14},
        constraints={"type": "ineq", "fun": lambda x: G @ x, "jac": lambda x: G},
    )
    np.testing.assert_allclose(project_numpy(g, G), primal.x, atol=1e-5)
    dual = minimize(
        lambda v: 0.5 * v @ G @ G.T @ v + g @ G.T @ v,
        np.ones(3),
        jac=lambda v: G @ (G.T @ v + g),
        bounds=[(0.5, None)] * 3,
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    np.testing.assert_allclose(project_numpy(g, G, 0.5), G.T @ dual.x + g, atol=1e-4)


def test_projections_by_hand():
    assert project_numpy([1.0, -1.0], [[0.0, 2.0]]) == pytest.approx([1, 0], abs=1e-9)
    assert project_numpy([1.0, -0.1], [[0.0, 1.0]], 0.5) == pytest.approx([1, 0.4]), "v ≥ γ"
    with_zero = project_numpy([-1.0, 3.0], [[1.0, 0.0], [0.0, 0.0]])
    assert with_zero == pytest.approx([0, 3], abs=1e-9), "a zero gradient constrains nothing"


def test_a_gradient_without_conflict_is_returned_as_it_is():
    g, G = torch.tensor([1.0, 0.1]), torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, -8.0]])
    assert project(g, G, 0.5) is g
    assert project(g * torch.nan, G, 0.5).isnan().all(), "the loss reports it"


def memory(**options):
    small = {"learner_layers": (6,), "learner_epochs": 2, "batch_size": 8, "exemplars": 10}
    factory = NetworkFactory(Config(**{**small, **options}), (4,))
    return gem._EpisodicNetwork(factory, 3, SeedStream(0))


def rows(n, label, seed=0):
    x = np.random.default_rng(10 * seed + label).integers(0, 256, (n, 4)).astype(np.float32) / 255
    return Batch(x, np.full(n, label))


def kept(learned):
    return {part["task"]: part["x"].tolist() for part in learned.state()["rows"]}


@pytest.fixture
def calls(monkeypatch):
    """Arguments and result of every projection."""
    noted = []

    def note(g, G, margin):
        noted.append((g.clone(), G, margin, project(g, G, margin)))
        return noted[-1][-1]

    monkeypatch.setattr(gem, "project", note)
    return noted


def test_every_other_task_constrains_by_its_mean_gradient(calls, monkeypatch):
    learned = memory(gem_margin=0.25)
    for label in (0, 1):
        learned.learn(str(label), rows(20, label), Context(SeedStream(label)))
    calls.clear()
    wanted, stepped = [], []
    for part in learned.state()["rows"]:
        loss = F.cross_entropy(learned.learner(part["x"].float() / 255), part["y"].long())
        gradient = torch.autograd.grad(loss, [*learned.learner.parameters()])
        wanted.append(torch.cat([part.flatten() for part in gradient]))
    real_step = RMSProp.step

    def step(self, gradients):
        stepped.append([*gradients])
        real_step(self, gradients)

    monkeypatch.setattr(RMSProp, "step", step)
    learned.learn("2", rows(20, 2), Context(SeedStream(2)))
    assert len(calls) == 2 * 3, "one projection per step"
    torch.testing.assert_close(calls[0][1], torch.stack(wanted))
    assert {margin for _, _, margin, _ in calls} == {0.25}
    shapes = [parameter.shape for parameter in learned.learner.parameters()]
    for (_, _, _, result), used in zip(calls, stepped, strict=True):
        assert [part.shape for part in used] == shapes
        assert torch.equal(torch.cat([part.flatten() for part in used]), result)
    assert any(not torch.equal(g, result) for g, _, _, result in calls)


def test_tasks_share_the_capacity_and_a_task_met_again_does_not_constrain_itself(calls):
    learned = memory()
    learned.learn("a", rows(20, 0), Context(SeedStream(0)))
    first, later = kept(learned)["a"], rows(4, 0, seed=1)
    learned.learn("a", later, Context(SeedStream(1)))
    assert calls == []
    again, pool = kept(learned)["a"], [*first, *np.round(later.x * 255).astype(int).tolist()]
    assert len(again) == 10
    assert all(row in pool for row in again)
    learned.learn(None, rows(20, 1), Context(SeedStream(2)))
    learned.learn(None, rows(20, 1), Context(SeedStream(3)))
    counts = {task: len(part) for task, part in kept(learned).items()}
    assert counts == {"a": 3, "task 1": 3, "task 2": 3}
    assert kept(learned)["a"] == again[:3]
    assert [len(G) for _, G, _, _ in calls] == [1] * 6 + [2] * 6


def test_the_first_task_is_learned_as_by_nn(make, tasks):
    first, plain = (make(name).partial_fit(*tasks[0], classes=[0, 1, 2]) for name in ("gem", "nn"))
    assert np.array_equal(first.predict_proba(tasks[1][0]), plain.predict_proba(tasks[1][0]))


def test_more_tasks_than_exemplars_are_refused(make, tasks):
    model = make("gem", exemplars=2).partial_fit(*tasks[0]).partial_fit(*tasks[1])
    before = model.predict_proba(tasks[0][0])
    with pytest.raises(UsageError, match="exemplars is 2, too few for one row of each of 3 tasks"):
        model.partial_fit(*tasks[2])
    assert np.array_equal(model.predict_proba(tasks[0][0]), before)


def test_a_diverging_training_is_reported():
    learned = memory(learner_epochs=9)
    learned.learn("a", rows(20, 0), Context(SeedStream(0)))
    learned.learner.schedule = replace(learned.learner.schedule, learning_rate=1e30)
    with pytest.raises(DgdmnError, match=r"loss is .* after epoch"):
        learned.learn("b", rows(20, 1), Context(SeedStream(1)))
