"""iCaRL: herding, distillation and the nearest mean, each by hand."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dgdmn.algorithms.icarl import ICaRL, _NearestMean, herding
from dgdmn.errors import UsageError
from dgdmn.events import ignore
from dgdmn.networks.blueprint import Blueprint
from dgdmn.presets import Preset
from dgdmn.samples import Samples
from dgdmn.seeds import Seeds

FEATURES_ARE_INPUTS = {"learner_layers": ()}


def memory(n_classes=4, d=2, **options):
    chosen = {"learner_layers": (6,), "learner_epochs": 2, "batch_size": 8, "exemplars": 12, **options}
    return _NearestMean(Blueprint(Preset(**chosen), (d,)), n_classes, Seeds(0))


def rows(n, label, d=2, seed=0):
    x = torch.rand(n, d, generator=torch.Generator().manual_seed(10 * seed + label))
    return Samples((x * 255).round() / 255, torch.full((n,), label))


@pytest.mark.parametrize("seed", range(5))
def test_herding_is_the_greedy_choice(seed):
    phi = F.normalize(torch.rand(9, 3, generator=torch.Generator().manual_seed(seed)))
    points = phi.double().numpy()
    mu = points.mean(axis=0) / np.linalg.norm(points.mean(axis=0))
    chosen = []
    for _ in range(6):
        left = [row for row in range(9) if row not in chosen]
        sums = {row: points[[*chosen, row]].sum(axis=0) for row in left}
        chosen.append(min(left, key=lambda row: np.linalg.norm(mu - sums[row] / np.linalg.norm(sums[row]))))
    assert herding(phi, 6).tolist() == chosen
    assert herding(phi, 4).tolist() == chosen[:4], "fewer are the first of more"
    assert sorted(herding(phi, 99).tolist()) == list(range(9)), "no row twice"


def test_the_mean_of_the_chosen_is_nearer_than_that_of_any_rows():
    rng = torch.Generator().manual_seed(0)
    phi = F.normalize((torch.randn(900, 12, generator=rng) + 1.5 * (torch.arange(900) % 3)[:, None]).relu())
    mu = F.normalize(phi.mean(dim=0), dim=0)
    for m in (20, 200):
        found = (mu - F.normalize(phi[herding(phi, m)].mean(dim=0), dim=0)).norm()
        lots = [torch.randperm(900, generator=rng)[:m] for _ in range(20)]
        assert found < min((mu - F.normalize(phi[rows].mean(dim=0), dim=0)).norm() for rows in lots) / 2


def test_rows_that_are_all_alike_are_taken_in_order():
    assert herding(torch.zeros(4, 2), 3).tolist() == [0, 1, 2]


def test_the_nearest_mean_answers():
    nearest = memory(**FEATURES_ARE_INPUTS)
    kept = [(2, [[255, 0], [255, 0]]), (0, [[0, 255], [0, 51]])]
    nearest.restore(
        {**nearest.state(), "rows": [{"x": torch.tensor(x, dtype=torch.uint8), "y": torch.tensor([y, y])}
                                     for y, x in kept]}
    )  # fmt: skip
    answers = nearest.probabilities(torch.tensor([[0.2, 0.0], [0.0, 0.9], [0.3, 0.4]]), None)
    near, far = np.exp(0), np.exp(-np.sqrt(2))
    assert answers[0].tolist() == pytest.approx([far / (near + far), 0, near / (near + far), 0])
    assert answers[1].tolist() == pytest.approx([near / (near + far), 0, far / (near + far), 0])
    d = np.exp(-np.linalg.norm([[0.6, -0.2], [-0.4, 0.8]], axis=1))  # (0.6, 0.8) at length 1 from each mean
    assert answers[2].tolist() == pytest.approx([d[0] / d.sum(), 0, d[1] / d.sum(), 0])


def test_a_mean_has_length_1():
    nearest = memory(**FEATURES_ARE_INPUTS)
    spread = {"x": torch.tensor([[255, 0], [0, 255]], dtype=torch.uint8), "y": torch.tensor([0, 0])}
    other = {"x": torch.tensor([[255, 51]], dtype=torch.uint8), "y": torch.tensor([1])}
    nearest.restore({**nearest.state(), "rows": [spread, other]})
    x = F.normalize(torch.tensor([[0.8, 0.5]]))
    d = [np.linalg.norm(x.numpy()[0] - np.array(mean) / np.linalg.norm(mean)) for mean in ([1, 1], [5, 1])]
    expected = np.exp(-np.array(d)) / np.exp(-np.array(d)).sum()
    assert nearest.probabilities(x, None)[0, :2].tolist() == pytest.approx(expected.tolist(), rel=1e-5)


def test_before_anything_is_learnt_the_network_answers():
    untaught = memory()
    x = rows(3, 0).x
    assert torch.equal(untaught.probabilities(x, None), untaught.learner.probabilities(x))


def test_targets_are_labels_of_this_task_and_old_answers_for_the_rest(monkeypatch):
    learnt = memory()
    for label in (0, 3):
        learnt.learn(None, rows(20, label), Seeds(label), ignore)
    new = Samples(torch.cat([rows(5, 1).x, rows(5, 3, seed=1).x]), torch.tensor([1] * 5 + [3] * 5))
    old = [torch.as_tensor(kept["x"]).float() / 255 for kept in learnt.state()["rows"]]
    x = torch.cat([new.x, *old])
    q = learnt.learner(x).sigmoid().detach()
    given = {}

    def note(loss, data, rng, listen):
        given.update(loss=loss, x=data[0], q=data[1])

    monkeypatch.setattr(learnt.learner, "train_with", note)
    learnt.learn(None, new, Seeds(9), ignore)
    labels = torch.tensor([1] * 5 + [3] * 5 + [0] * 6 + [3] * 6)
    expected = torch.stack([q[:, 0], labels == 1, labels == 3], dim=1)  # class 2 is to come
    assert torch.equal(given["x"], x)
    torch.testing.assert_close(given["q"], expected)
    g = learnt.learner(x)[:, [0, 1, 3]].sigmoid()
    by_hand = -(expected * g.log() + (1 - expected) * (1 - g).log()).sum(dim=1).mean()
    torch.testing.assert_close(given["loss"](x, expected, None), by_hand)


def test_fewer_exemplars_are_the_first_of_more():
    learnt, before = memory(), None
    for label in range(3):
        learnt.learn(None, rows(20, label), Seeds(label), ignore)
        kept = [part["x"] for part in learnt.state()["rows"]]
        assert [len(part) for part in kept] == [12 // (label + 1)] * (label + 1)
        if before is not None:
            assert all(torch.equal(now, then[: len(now)]) for now, then in zip(kept, before, strict=False))
        before = kept


def test_a_class_met_again_is_chosen_for_from_old_and_new_rows():
    learnt = memory(exemplars=30)
    learnt.learn(None, rows(4, 0), Seeds(0), ignore)
    learnt.learn(None, rows(5, 0, seed=1), Seeds(1), ignore)
    (kept,) = learnt.state()["rows"]
    both = torch.cat([rows(4, 0).x, rows(5, 0, seed=1).x])
    assert sorted(kept["x"].tolist()) == sorted((both * 255).round().int().tolist())
    order = herding(F.normalize(learnt.learner.features(kept["x"].float() / 255)), 9)
    assert order.tolist() == list(range(9)), "the most telling first, by the features of now"


def test_fewer_exemplars_than_classes_are_refused(make, tasks):
    with pytest.raises(UsageError, match="exemplars is 3, too few for a row of each of 4 classes; raise it"):
        ICaRL(exemplars=3, n_classes=4).fit(*tasks[0])
    model = make("icarl", exemplars=2).partial_fit(*tasks[0]).partial_fit(*tasks[1])
    before = model.predict_proba(tasks[0][0])
    with pytest.raises(UsageError, match="exemplars is 2, too few for a row of each of 3 classes; raise it"):
        model.partial_fit(*tasks[2])
    assert np.array_equal(model.predict_proba(tasks[0][0]), before)
