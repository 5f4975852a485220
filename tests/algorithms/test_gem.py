"""GEM: who constrains whom, and which rows are kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dgdmn.algorithms import gem
from dgdmn.algorithms.gem import projected
from dgdmn.errors import DgdmnError, UsageError
from dgdmn.events import ignore
from dgdmn.networks.blueprint import Blueprint
from dgdmn.networks.rmsprop import RMSProp
from dgdmn.presets import Preset
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds


def memory(**options):
    chosen = {"learner_layers": (6,), "learner_epochs": 2, "batch_size": 8, "exemplars": 10, **options}
    return gem._Episodic(Blueprint(Preset(**chosen), (4,)), 3, Seeds(0))


def rows(n, label, seed=0):
    x = torch.rand(n, 4, generator=torch.Generator().manual_seed(10 * seed + label))
    return Samples((x * 255).round() / 255, torch.full((n,), label))


def kept(learnt):
    return {part["task"]: part["x"].tolist() for part in learnt.state()["rows"]}


@pytest.fixture
def calls(monkeypatch):
    """What every projection was given and gave."""
    noted = []

    def note(g, G, margin):
        noted.append((g.clone(), G, margin, projected(g, G, margin)))
        return noted[-1][-1]

    monkeypatch.setattr(gem, "projected", note)
    return noted


def test_every_other_task_constrains_by_its_mean_gradient(calls, monkeypatch):
    learnt = memory(gem_margin=0.25)
    for label in (0, 1):
        learnt.learn(str(label), rows(20, label), Seeds(label), ignore)
    calls.clear()
    wanted, stepped = [], []
    for part in learnt.state()["rows"]:
        loss = F.cross_entropy(learnt.learner(part["x"].float() / 255), part["y"].long())
        gradient = torch.autograd.grad(loss, [*learnt.learner.parameters()])
        wanted.append(torch.cat([part.flatten() for part in gradient]))
    real = RMSProp.step
    monkeypatch.setattr(
        RMSProp, "step", lambda self, gradients: (stepped.append([*gradients]), real(self, gradients))
    )
    learnt.learn("2", rows(20, 2), Seeds(2), ignore)
    assert len(calls) == 2 * 3, "every step"
    torch.testing.assert_close(calls[0][1], torch.stack(wanted))
    assert {margin for _, _, margin, _ in calls} == {0.25}
    shapes = [parameter.shape for parameter in learnt.learner.parameters()]
    for (_, _, _, result), used in zip(calls, stepped, strict=True):
        assert [part.shape for part in used] == shapes
        assert torch.equal(torch.cat([part.flatten() for part in used]), result)
    assert any(not torch.equal(g, result) for g, _, _, result in calls)


def test_tasks_share_the_room_and_a_task_met_again_does_not_hold_itself_back(calls):
    learnt = memory()
    learnt.learn("a", rows(20, 0), Seeds(0), ignore)
    first = kept(learnt)["a"]
    learnt.learn("a", rows(4, 0, seed=1), Seeds(1), ignore)
    assert calls == []
    again, pool = kept(learnt)["a"], [*first, *(rows(4, 0, seed=1).x * 255).round().int().tolist()]
    assert len(again) == 10
    assert all(row in pool for row in again)
    learnt.learn(None, rows(20, 1), Seeds(2), ignore)
    learnt.learn(None, rows(20, 1), Seeds(3), ignore)
    assert {task: len(part) for task, part in kept(learnt).items()} == {"a": 3, "task 1": 3, "task 2": 3}
    assert kept(learnt)["a"] == again[:3]
    assert [len(G) for _, G, _, _ in calls] == [1] * 6 + [2] * 6


def test_the_first_task_is_learnt_as_nn_learns_it(make, tasks):
    first, plain = (make(name).partial_fit(*tasks[0], classes=[0, 1, 2]) for name in ("gem", "nn"))
    assert np.array_equal(first.predict_proba(tasks[1][0]), plain.predict_proba(tasks[1][0]))


def test_more_tasks_than_exemplars_are_refused(make, tasks):
    model = make("gem", exemplars=2).partial_fit(*tasks[0]).partial_fit(*tasks[1])
    before = model.predict_proba(tasks[0][0])
    with pytest.raises(UsageError, match="exemplars is 2, too few for a row of each of 3 tasks; raise it"):
        model.partial_fit(*tasks[2])
    assert np.array_equal(model.predict_proba(tasks[0][0]), before)


def test_a_diverging_training_is_told_as_such():
    learnt = memory(learner_epochs=9)
    learnt.learn("a", rows(20, 0), Seeds(0), ignore)
    learnt.learner.schedule = replace(learnt.learner.schedule, learning_rate=1e30)
    with pytest.raises(DgdmnError, match=r"loss is .* after epoch"):
        learnt.learn("b", rows(20, 1), Seeds(1), ignore)
