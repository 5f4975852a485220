"""iCaRL: herding, distillation and the nearest mean, each by hand."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dgdmn.algorithms.icarl import ICaRL, _NearestMeanNetwork, herding
from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.core.errors import UsageError
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.networks.factory import NetworkFactory

FEATURES_ARE_INPUTS = {"learner_layers": ()}


def memory(n_classes=4, d=2, **options):
    small = {"learner_layers": (6,), "learner_epochs": 2, "batch_size": 8, "exemplars": 12}
    factory = NetworkFactory(Config(**{**small, **options}), (d,))
    return _NearestMeanNetwork(factory, n_classes, SeedStream(0))


def rows(n, label, d=2, seed=0):
    x = np.random.default_rng(10 * seed + label).integers(0, 256, (n, d)).astype(np.float32) / 255
    return Batch(x, np.full(n, label))


def learn(m, batch, seed=0):
    m.learn(None, batch, Context(SeedStream(seed)))


@pytest.mark.parametrize("seed", range(5))
def test_herding_is_the_greedy_choice(seed):
    phi = F.normalize(torch.rand(9, 3, generator=torch.Generator().manual_seed(seed)))
    points = phi.double().numpy()
    mu = points.mean(axis=0) / np.linalg.norm(points.mean(axis=0))
    chosen = []
    for _ in range(6):
        left = [row for row in range(9) if row not in chosen]
        sums = [points[[*chosen, row]].sum(axis=0) for row in left]
        distances = [np.linalg.norm(mu - total / np.linalg.norm(total)) for total in sums]
        chosen.append(left[int(np.argmin(distances))])
    assert herding(phi, 6).tolist() == chosen
    assert herding(phi, 4).tolist() == chosen[:4], "fewer rows are the first of more"
    assert sorted(herding(phi, 99).tolist()) == list(range(9)), "a row is chosen twice"


def test_the_mean_of_herded_rows_is_closer_than_that_of_random_rows():
    rng = torch.Generator().manual_seed(0)
    groups = 1.5 * (torch.arange(900) % 3)[:, None]
    phi = F.normalize((torch.randn(900, 12, generator=rng) + groups).relu())
    mu = F.normalize(phi.mean(dim=0), dim=0)

    def distance(chosen):
        return (mu - F.normalize(phi[chosen].mean(dim=0), dim=0)).norm()

    for m in (20, 200):
        random_rows = [torch.randperm(900, generator=rng)[:m] for _ in range(20)]
        assert distance(herding(phi, m)) < min(map(distance, random_rows)) / 2


def test_equal_rows_are_taken_in_order():
    assert herding(torch.zeros(4, 2), 3).tolist() == [0, 1, 2]


def with_exemplars(kept):
    """A memory whose features are its inputs, with these exemplars of each class."""
    nearest = memory(**FEATURES_ARE_INPUTS)
    parts = [
        {"x": torch.tensor(x, dtype=torch.uint8), "y": torch.full((len(x),), y)} for y, x in kept
    ]
    nearest.load_state({**nearest.state(), "rows": parts})
    return nearest


def test_the_nearest_mean_answers():
    nearest = with_exemplars([(2, [[255, 0], [255, 0]]), (0, [[0, 255], [0, 51]])])
    x = np.array([[0.2, 0.0], [0.0, 0.9], [0.3, 0.4]], dtype=np.float32)
    answers = nearest.predict_proba(x, None)
    near, far = np.exp(0), np.exp(-np.sqrt(2))
    assert answers[0] == pytest.approx([far / (near + far), 0, near / (near + far), 0])
    assert answers[1] == pytest.approx([near / (near + far), 0, far / (near + far), 0])
    d = np.exp(-np.linalg.norm([[0.6, -0.2], [-0.4, 0.8]], axis=1))  # (0.6, 0.8) from each mean
    assert answers[2] == pytest.approx([d[0] / d.sum(), 0, d[1] / d.sum(), 0])


def test_a_mean_is_normalized():
    nearest = with_exemplars([(0, [[255, 0], [0, 255]]), (1, [[255, 51]])])
    x = F.normalize(torch.tensor([[0.8, 0.5]])).numpy()
    means = [np.array(mean) / np.linalg.norm(mean) for mean in ([1, 1], [5, 1])]
    weights = np.exp([-np.linalg.norm(x[0] - mean) for mean in means])
    expected = weights / weights.sum()
    assert nearest.predict_proba(x, None)[0, :2] == pytest.approx(expected, rel=1e-5)


def test_the_network_answers_before_anything_is_learned():
    untrained, x = memory(), rows(3, 0).x
    answers = untrained.learner.predict_proba(torch.from_numpy(x)).numpy()
    assert np.array_equal(untrained.predict_proba(x, None), answers)


def test_targets_are_labels_for_this_task_and_old_answers_for_the_rest(monkeypatch):
    learned = memory()
    for label in (0, 3):
        learn(learned, rows(20, label), label)
    new = Batch(np.concatenate([rows(5, 1).x, rows(5, 3, seed=1).x]), np.repeat([1, 3], 5))
    old = [kept["x"].float() / 255 for kept in learned.state()["rows"]]
    x = torch.cat([torch.from_numpy(new.x), *old])
    q = learned.learner(x).sigmoid().detach()
    given = {}

    def note(loss, data, rng, callback):
        given.update(loss=loss, x=data[0], q=data[1])

    monkeypatch.setattr(learned.learner, "train_with", note)
    learn(learned, new, 9)
    labels = torch.tensor([1] * 5 + [3] * 5 + [0] * 6 + [3] * 6)
    expected = torch.stack([q[:, 0], labels == 1, labels == 3], dim=1)  # class 2 was not learned
    assert torch.equal(given["x"], x)
    torch.testing.assert_close(given["q"], expected)
    g = learned.learner(x)[:, [0, 1, 3]].sigmoid()
    by_hand = -(expected * g.log() + (1 - expected) * (1 - g).log()).sum(dim=1).mean()
    torch.testing.assert_close(given["loss"](x, expected, None), by_hand)


def test_fewer_exemplars_are_the_first_of_more():
    learned, before = memory(), []
    for label in range(3):
        learn(learned, rows(20, label), label)
        kept = [part["x"] for part in learned.state()["rows"]]
        assert [len(part) for part in kept] == [12 // (label + 1)] * (label + 1)
        for now, then in zip(kept, before, strict=False):
            assert torch.equal(now, then[: len(now)])
        before = kept


def test_exemplars_of_a_class_met_again_come_from_old_and_new_rows():
    learned = memory(exemplars=30)
    learn(learned, rows(4, 0))
    learn(learned, rows(5, 0, seed=1), 1)
    (kept,) = learned.state()["rows"]
    both = np.concatenate([rows(4, 0).x, rows(5, 0, seed=1).x])
    assert sorted(kept["x"].tolist()) == sorted(np.round(both * 255).astype(int).tolist())
    order = herding(F.normalize(learned.learner.features(kept["x"].float() / 255)), 9)
    assert order.tolist() == list(range(9)), "the order is not that of the present features"


def test_fewer_exemplars_than_classes_are_refused(make, tasks):
    with pytest.raises(UsageError, match="exemplars is 3, too few for one row of each of 4"):
        ICaRL(exemplars=3, n_classes=4).fit(*tasks[0])
    model = make("icarl", exemplars=2).partial_fit(*tasks[0]).partial_fit(*tasks[1])
    before = model.predict_proba(tasks[0][0])
    with pytest.raises(UsageError, match="exemplars is 2, too few for one row of each of 3"):
        model.partial_fit(*tasks[2])
    assert np.array_equal(model.predict_proba(tasks[0][0]), before)
