"""The mixture memory against plain formulas (docs/mixture.md), and its sums in any order and any batches."""

import math
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import multivariate_normal
from sklearn.covariance import oas

from dgdmn.config import Config
from dgdmn.core.batch import Batch
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.core.events import Context
from dgdmn.core.rng import SeedStream
from dgdmn.memory.budget import fit_blocks
from dgdmn.memory.code import REFERENCE, SETTINGS, SHRINKAGES, MixtureSpec, make_code
from dgdmn.memory.components import CrossMoment, cut_scatter
from dgdmn.memory.gaussian import gram, pack, unpack
from dgdmn.memory.held_out import MAX_LEAD, PARTS, cut_in_parts, hold_out, leave_out
from dgdmn.memory.mixture import MixtureMemory
from dgdmn.memory.pool import SHRINKAGE_FACTOR, Pool
from dgdmn.memory.scores import OWN_SHARE, merge_tasks, score_components, score_parts
from dgdmn.memory.task_log import TaskInfo

CTX = Context(SeedStream(0))


def spec_of(d, **options):
    fixed = {"generator": "mixture", "shrinkage": 0.03, "own_covariance": 0.5}
    return MixtureSpec(Config(**{**fixed, **options}), d)


def memory_of(d, rows, n_classes=3, role="ltm", **options):
    """A memory that learned (task, x, y) in turn."""
    memory = MixtureMemory(spec_of(d, **options), role, n_classes, SeedStream(0))
    if role == "stm":
        memory.pool = Pool.empty(d)
    for task, x, y in rows:
        learn(memory, task, x, y)
    return memory


def learn(memory, task, x, y, **others):
    batch = Batch(np.asarray(x), np.asarray(y))
    memory.learn(batch, {task: TaskInfo(1, batch.classes())}, CTX, **others)


def three_classes(d, n=40, seed=0):
    """Correlated rows of three classes, each with its own covariance."""
    rng = np.random.default_rng(seed)
    y = np.arange(3 * n) % 3
    roots, means = rng.standard_normal((3, d, d)) / np.sqrt(d), rng.standard_normal((3, d))
    x = np.stack([means[k] + roots[k] @ rng.standard_normal(d) for k in y])
    return x, y


def covariances(rows, y, shrinkage):
    """The covariance within the groups of y, and S₀."""
    groups = [rows[y == k] for k in np.unique(y)]
    scatter = sum((g - g.mean(axis=0)).T @ (g - g.mean(axis=0)) for g in groups) / len(rows)
    total = rows.var(axis=0)
    share = (np.diag(scatter) / total).mean()
    return scatter, (1 - shrinkage) * scatter + shrinkage * share * np.diag(total)


def size_terms(rows, y, shrinkage, classes):
    """What each class gains for the noise of its mean."""
    scatter, shrunk = covariances(rows, y, shrinkage)
    return 0.5 * np.trace(np.linalg.inv(shrunk) @ scatter) / np.bincount(classes)


def reference(x, rows, y, shrinkage, weight, code):
    """Scores of each class by the formulas of docs/mixture.md, from the rows themselves."""
    q = code.shape[1]
    groups = [rows[y == k] for k in np.unique(y)]
    shrunk = covariances(rows, y, shrinkage)[1]
    tied_code = code.T @ shrunk @ code
    inverse, scores = np.linalg.inv(shrunk), []
    for group in groups:
        mean, n = group.mean(axis=0), len(group)
        tied = x @ inverse @ mean - 0.5 * mean @ inverse @ mean
        z = (group - mean) @ code
        own_share = OWN_SHARE * n / (n + q)
        own = own_share * (z.T @ z) / n + (1 - own_share) * tied_code
        log_own = multivariate_normal.logpdf(x @ code, mean @ code, own)
        log_tied = multivariate_normal.logpdf(x @ code, mean @ code, tied_code)
        scores.append(tied + weight * (log_own - log_tied))
    return np.stack(scores, axis=1)


# Oracles


@pytest.mark.parametrize(("d", "code_dim"), [(6, 192), (12, 192), (270, 20)])
@pytest.mark.parametrize(
    ("shrinkage", "weight"), [(0.03, 1.0), (0.3, 0.5), (0.003, 0.0), (1.0, 0.0)]
)
def test_scores_are_those_of_the_formulas(d, code_dim, shrinkage, weight):
    """A code of all features (q = d), and a shorter one (q < d)."""
    rows, y = three_classes(d)
    kept = (y < 2) | (np.arange(len(y)) < 60)  # class 2 has half as many rows
    rows, y = rows[kept], y[kept]
    memory = memory_of(
        d, [("a", rows, y)], shrinkage=shrinkage, own_covariance=weight, code_dim=code_dim
    )
    memory.consolidate([], CTX)
    assert memory.spec.q == min(d, code_dim)
    x = three_classes(d, seed=1)[0][:20]
    scores, labels, owner = memory.joint_scores(x, [])
    expected = reference(x, rows, y, shrinkage, weight, memory.spec.code)
    expected += size_terms(rows, y, shrinkage, y)
    np.testing.assert_allclose(scores[:, np.argsort(labels)], expected, rtol=1e-8, atol=1e-6)
    assert not owner.any()
    np.testing.assert_allclose(
        memory.recognition_loss(x), -np.logaddexp.reduce(expected, axis=1), rtol=1e-6, atol=1e-6
    )


def test_a_code_is_orthonormal_and_depends_on_its_seed_only():
    for d, q in ((20, 20), (300, 20)):
        code = make_code(d, q, 0)
        np.testing.assert_allclose(code.T @ code, np.eye(q), atol=1e-12)
        assert not np.array_equal(code, make_code(d, q, 1))
    assert set(np.unique(make_code(20, 20, 0))) == {0.0, 1.0}, "an order of the features"


@pytest.mark.parametrize(("d", "code_dim"), [(5, 192), (270, 20)])
def test_a_class_of_several_tasks_scores_within_its_tasks_and_as_a_whole(d, code_dim):
    """The mean of both: log-mean-exp over its tasks, and the score of all its rows as one component."""
    rows, y = three_classes(d)
    task = np.where((np.arange(len(y)) < 60) | (y == 2), 0, 1)  # class 2 has one task
    parts = [(name, rows[task == k], y[task == k]) for k, name in enumerate("ab")]
    memory = memory_of(d, parts, code_dim=code_dim)
    x = three_classes(d, seed=1)[0][:20]
    code = memory.spec.code
    # Columns: classes 0, 1, 2 in task a, then classes 0, 1 in task b.
    within = reference(x, rows, 3 * task + y, 0.03, 0.5, code)
    shared = [np.logaddexp(within[:, k], within[:, 3 + k]) - np.log(2) for k in (0, 1)]
    by_task = np.stack([*shared, within[:, 2]], axis=1)
    scores = (by_task + reference(x, rows, y, 0.03, 0.5, code)) / 2
    scores += size_terms(rows, 3 * task + y, 0.03, y)
    expected = softmax(scores / memory.frozen().temperature, axis=1)
    np.testing.assert_allclose(memory.predict_proba(x), expected, atol=1e-6)


def test_a_whole_class_answers_for_a_task_that_was_never_met():
    """Tasks shift the first column at random, so only the second tells the classes apart."""

    def task(seed, n=100):
        rng = np.random.default_rng(seed)
        y = np.arange(n) % 2
        x = 0.3 * rng.standard_normal((n, 6))
        x[:, 0] += 2 * rng.standard_normal(2)[y]
        x[:, 1] += y
        return x, y

    tasks = [(str(seed), *task(seed)) for seed in range(3)]
    memory = memory_of(6, tasks, n_classes=2, shrinkage=0.001)
    right = within = 0.0
    for seed in range(100, 120):
        x, y = task(seed)
        right += (memory.predict_proba(x).argmax(axis=1) == y).mean() / 20
        scores, labels, _ = memory.joint_scores(x, [])
        within += (labels[scores.argmax(axis=1)] == y).mean() / 20
    assert right > within + 0.05, (right, within)


def test_components_hold_count_mean_and_scatter_of_their_rows():
    x, y = three_classes(7)
    memory = memory_of(7, [("a", x, y), ("a", x[:10] + 1, y[:10])])
    rows, labels = np.concatenate([x, x[:10] + 1]), np.concatenate([y, y[:10]])
    total = np.zeros((7, 7))
    for one in memory.components:
        own = rows[labels == one.label]
        centered = own - own.mean(axis=0)
        assert one.n == len(own)
        np.testing.assert_allclose(one.mean, own.mean(axis=0), rtol=1e-10)
        z = centered @ memory.spec.code
        np.testing.assert_allclose(one.scatter, z.T @ z, rtol=1e-10, atol=1e-10)
        total += centered.T @ centered
    np.testing.assert_allclose(memory.pool.scatter, total, rtol=1e-10, atol=1e-10)
    assert memory.pool.n == len(rows)


def test_merged_components_are_the_component_of_both():
    x, _ = three_classes(6)
    zeros = np.zeros(len(x), dtype=int)
    a, b = (memory_of(6, [("a", part, zeros[: len(part)])]) for part in (x[:50], x[50:]))
    both = memory_of(6, [("a", x, zeros)]).components[0]
    merged = a.components[0].merge(b.components[0], a.spec.code)
    assert merged.n == both.n
    np.testing.assert_allclose(merged.mean, both.mean, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(merged.scatter, both.scatter, rtol=1e-12, atol=1e-12)
    between = gram(a.components[0].between_vector(b.components[0])[None])
    pooled = a.pool.scatter + b.pool.scatter + between
    np.testing.assert_allclose(pooled, gram(x - x.mean(axis=0)), rtol=1e-10, atol=1e-10)


def test_decoding_is_linear_regression_on_the_code():
    rng = np.random.default_rng(0)
    x, mix = rng.normal(3, 1, (200, 9)), rng.standard_normal((9, 4))
    z = x @ mix + 0.1 * rng.standard_normal((200, 4))
    moments = CrossMoment(0, np.zeros(9), np.zeros(4), np.zeros((9, 4)))
    for part in (slice(0, 1), slice(1, 70), slice(70, 200)):
        moments = moments.add(x[part], z[part])
    design = np.column_stack([np.ones(len(z)), z])
    expected = design @ np.linalg.lstsq(design, x, rcond=None)[0]
    decoded = moments.decode(z, gram(z - z.mean(axis=0)))
    np.testing.assert_allclose(decoded, expected, atol=0.01)  # it shrinks by 0.001


@pytest.mark.parametrize(("d", "code_dim"), [(4, 192), (260, 12)])
def test_samples_have_the_mean_and_covariance_of_their_component(d, code_dim):
    """Its own covariance in the code, the pooled one outside of it."""
    x, y = three_classes(d, n=200)
    memory = memory_of(d, [("a", x, y)], code_dim=code_dim, own_covariance=1.0)
    memory.spec = MixtureSpec(memory.config, d, invert=lambda features: features)
    memory.consolidate([], CTX)
    drawn = memory.sample(12_000, SeedStream(1))
    code, q = memory.spec.code, memory.spec.q
    shrunk = memory.pool.covariance(0.03)
    tied = code.T @ shrunk @ code
    for one in memory.components:
        own = drawn.x[drawn.y == one.label]
        own_share = OWN_SHARE * one.n / (one.n + q)
        expected = own_share * one.scatter / one.n + (1 - own_share) * tied
        deviation = np.sqrt(np.diag(code @ expected @ code.T + shrunk).max())
        assert len(own) == pytest.approx(4_000, rel=0.1)
        np.testing.assert_allclose(own.mean(axis=0), one.mean, atol=0.1 * deviation)
        found = np.cov((own @ code).T)
        np.testing.assert_allclose(found, expected, atol=0.12 * np.diag(expected).max())


def test_packed_triangles_restore_their_matrix():
    symmetric = gram(np.random.default_rng(0).standard_normal((3, 5)))
    assert np.array_equal(unpack(pack(symmetric), 5), symmetric)
    assert pack(symmetric).size == 15


@settings(max_examples=60, deadline=None)
@given(
    budget=st.integers(-50, 5_000),
    parts=st.lists(st.tuples(st.floats(0.01, 10), st.integers(0, 30)), min_size=1, max_size=8),
)
def test_blocks_fit_their_budget_and_none_grows(budget, parts):
    weights, sizes = np.array([w for w, _ in parts]), [q for _, q in parts]
    blocks = fit_blocks(budget, weights, sizes)
    assert all(0 <= block <= size for block, size in zip(blocks, sizes, strict=True))
    assert sum(2 * q * (q + 1) for q in blocks) <= max(0, budget) + 1e-3
    if budget >= sum(2 * q * (q + 1) for q in sizes):
        assert blocks == sizes
    order = np.argsort(weights)
    same = len(set(sizes)) == 1
    assert not same or np.all(np.diff(np.array(blocks)[order]) >= 0), "more weight, larger block"


# Exactness


def sums_of(memory):
    """Sums by task and class, and those of the pool."""
    found = {
        (one.task, one.label): (one.n, one.mean, one.scatter)
        for one in sorted(memory.components, key=lambda one: (one.task, one.label))
    }
    return found, memory.pool.n, memory.pool.scatter


def assert_same_sums(one, other):
    (ours, n, scatter), (theirs, m, other_scatter) = sums_of(one), sums_of(other)
    assert list(ours) == list(theirs)
    assert n == m
    for (count, mean, own), (count_, mean_, own_) in zip(
        ours.values(), theirs.values(), strict=True
    ):
        assert count == count_
        assert_close(mean, mean_)
        assert_close(own, own_)
    assert_close(scatter, other_scatter)


def assert_close(a, b, relative=1e-10):
    scale = max(np.abs(a).max(initial=0), np.abs(b).max(initial=0))
    np.testing.assert_allclose(a, b, rtol=relative, atol=relative * scale)


EXACT = st.fixed_dictionaries(
    {
        "d": st.sampled_from([3, 8, 270]),
        "seed": st.integers(0, 1_000),
        "cuts": st.lists(st.integers(1, 29), max_size=6),
        "single": st.booleans(),
        "reverse": st.booleans(),
        "offset": st.sampled_from([0.0, 1e3]),
    }
)


@settings(max_examples=25, deadline=None)
@given(EXACT)
def test_order_and_batches_do_not_change_the_sums(case):
    """Any order of tasks and any split into batches, down to one row, to 1e-10."""
    case = SimpleNamespace(**case)
    x, y = three_classes(case.d, n=10, seed=case.seed)
    x = x + case.offset
    tasks = {"a": slice(0, 12), "b": slice(12, 30)}
    whole = memory_of(case.d, [(t, x[at], y[at]) for t, at in tasks.items()], code_dim=16)
    other = memory_of(case.d, [], code_dim=16)
    cuts = range(1, 30) if case.single else sorted(case.cuts)
    pieces = [part for part in np.split(np.arange(30), cuts) if len(part)]
    for rows in reversed(pieces) if case.reverse else pieces:
        for task, at in tasks.items():
            own = rows[(rows >= at.start) & (rows < at.stop)]
            if len(own):
                learn(other, task, x[own], y[own])
    assert_same_sums(whole, other)
    half = [memory_of(case.d, [(t, x[at], y[at])], code_dim=16) for t, at in tasks.items()]
    half[1].add_memory(half[0])
    assert_same_sums(whole, half[1])
    for memory in (whole, other, half[1]):
        memory.consolidate([], CTX)
    assert_same_answers(
        [memory.joint_scores(x, [])[:2] for memory in (whole, other, half[1])], memory.n_classes
    )
    levels = [merge_tasks(memory.components, memory.pool, memory.spec) for memory in (whole, other)]
    if levels[0] is not None:
        assert_same_answers([score_by(level, x, whole.spec) for level in levels], whole.n_classes)


def score_by(level, x, spec):
    return score_components(x, *level, spec)[0], level.labels


def assert_same_answers(found, n_classes):
    """The classes of the best scores agree but where the two best are within 1e-6."""
    by_class = []
    for scores, labels in found:
        table = np.full((len(scores), n_classes), -np.inf)
        for label in np.unique(labels):
            table[:, label] = np.logaddexp.reduce(scores[:, labels == label], axis=1)
        by_class.append(table)
    top = np.sort(by_class[0], axis=1)
    sure = top[:, -1] - top[:, -2] > 1e-6
    for table in by_class[1:]:
        assert np.array_equal(by_class[0].argmax(axis=1)[sure], table.argmax(axis=1)[sure])


def test_task_memories_and_a_sleep_give_the_sums_of_the_long_term_memory():
    x, y = three_classes(6)
    parts = [("a", x[:50], y[:50]), ("b", x[50:90], y[50:90]), ("a", x[90:], y[90:])]
    direct, asleep = memory_of(6, parts), memory_of(6, [])
    for task, rows, labels in parts:
        awake = MixtureMemory(asleep.spec, "stm", 3, SeedStream(0))
        awake.pool = asleep.pool
        learn(awake, task, rows, labels, others=[asleep])
        asleep.pool = awake.pool
        asleep.consolidate([awake], CTX)
    assert_same_sums(direct, asleep)
    assert asleep.age == direct.age == len(x)
    assert asleep.tasks["a"].times == 2


# Choice of λ and g


def test_tested_rows_choose_and_are_counted_once():
    x, y = three_classes(6, n=200)
    memory = memory_of(6, [("a", x, y)], shrinkage=0, own_covariance=-1)
    assert memory.pool.votes.shape == (2, len(SETTINGS))
    assert memory.pool.votes.max() <= len(x) // PARTS
    assert not memory.pool.votes[:, SETTINGS.index(REFERENCE)].any()
    assert memory.pool.log_losses.max() > 0
    assert memory.pool.untested == 0
    assert [int(one.sketch.sum()) for one in memory.components] == [100, 100, 100], "half of them"
    assert memory._choose(memory.components) in SETTINGS
    assert memory.pool.n == len(x), "tested rows are learned, too"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=60))
def test_a_part_is_a_run_of_the_rows_of_each_class(labels):
    y = np.array(labels)
    parts = cut_in_parts(y)
    for label in np.unique(y):
        own = parts[y == label]
        assert (np.diff(own) >= 0).all()
        assert own[-1] == PARTS - 1, "even a single row is tested"
        sizes = np.bincount(own, minlength=PARTS)
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [6, 300])
def test_what_is_left_without_rows_equals_a_memory_that_never_met_them(d, weighted):
    x, y = three_classes(d)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y)) if weighted else None
    out = (cut_in_parts(y) == 3) | (y == 2)  # the second class loses some rows, the third all
    memory, rest = memory_of(d, []), memory_of(d, [])
    for into, rows in ((memory, np.ones_like(out)), (rest, ~out)):
        into._add(x[:5], y[:5], None, "before")
        into._add(x[rows], y[rows], None if weight is None else weight[rows], "now")
    args = x[out], y[out], None if weight is None else weight[out], "now"
    components, pool = leave_out(*args, memory.components, memory.pool, memory.spec)
    np.testing.assert_allclose(pool.scatter, rest.pool.scatter, rtol=1e-9, atol=1e-9)
    assert pool.n == pytest.approx(rest.pool.n)
    assert len(components) == len(rest.components)
    for found, wanted in zip(components, rest.components, strict=True):
        assert (found.task, found.label) == (wanted.task, wanted.label)
        assert found.n == pytest.approx(wanted.n)
        np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.scatter, wanted.scatter, rtol=1e-9, atol=1e-9)


def test_rows_of_a_task_that_was_met_before_are_left_out_of_the_new_memory_only():
    """A task that comes back has components of the same name in two memories."""
    x, y = three_classes(70, n=100)
    asleep = memory_of(70, [("a", x[::2], y[::2])])
    awake = MixtureMemory(asleep.spec, "stm", 3, SeedStream(0))
    awake.pool = asleep.pool
    learn(awake, "a", x[1::2], y[1::2], others=[asleep])
    assert awake.pool.n == len(x)
    assert awake.pool.untested == 0
    assert all(one.sketch.sum() for one in awake.components)
    assert not any(one.sketch.sum() for one in asleep.components)


def test_near_copies_of_one_class_do_not_decide_alone():
    """Without a limit, one setting would lead by 64 rows of one class here."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 1, (800, 6)), rng.normal(0, 0.05, (800, 6))])
    y = np.repeat([0, 1], 800)
    gained, lost = memory_of(6, [("a", x, y)], shrinkage=0, own_covariance=-1).pool.votes
    assert MAX_LEAD <= abs(gained - lost).max() <= 2 * MAX_LEAD, "two classes"


def test_settings_are_compared_with_scatters_of_the_same_size():
    x, y = three_classes(6, n=200)
    x = x + 4 * np.random.default_rng(1).standard_normal(x.shape)  # settings disagree
    memory = memory_of(6, [("a", x, y)], shrinkage=0, own_covariance=-1)

    def votes(*sizes):
        cut = [cut_scatter(one, q) for one, q in zip(memory.components, sizes, strict=True)]
        args = x, y, None, "a", cut, [], memory.pool, memory.spec
        return hold_out(*args, chosen=REFERENCE, n_classes=3).votes

    np.testing.assert_array_equal(votes(2, 6, 6), votes(2, 2, 2))
    assert (votes(2, 2, 2) != votes(6, 6, 6)).any()
    tied = votes(0, 6, 6).reshape(2, len(SHRINKAGES), -1)
    assert (tied == tied[:, :, :1]).all(), "without scatters g makes no difference"


@pytest.mark.parametrize("n", [6, 60, 3_000])
def test_expected_shrinkage_is_a_multiple_of_the_oracle_approximation(n):
    x = np.random.default_rng(0).standard_normal((n, 8)) @ np.diag([9, 5, 3, 1, 1, 1, 1, 1.0])
    x = np.hstack([x, x[:, :2] + x[:, 2:4]])  # correlated, so there is something to shrink
    memory = memory_of(10, [("a", x, np.zeros(n, int))], shrinkage=0, own_covariance=-1)
    amount = SHRINKAGE_FACTOR * oas((x - x.mean(axis=0)) / x.std(axis=0), assume_centered=True)[1]
    nearest = min(SHRINKAGES, key=lambda one: abs(math.log(one) - math.log(amount)))
    assert memory._choose(memory.components) == (nearest, 1.0 if n < 10 else 0.35)


@pytest.mark.parametrize("options", [{"shrinkage": 0.05}, {"own_covariance": 0.7}])
def test_one_setting_given_leaves_the_other_to_held_out_rows(options):
    x, y = three_classes(6, n=200)
    free = {"shrinkage": 0, "own_covariance": -1, **options}
    memory = memory_of(6, [("a", x, y)], **free)
    shrinkage, weight = memory._choose(memory.components)
    if "shrinkage" in options:
        assert shrinkage == 0.05
        assert weight in {g for _, g in SETTINGS}
    else:
        assert weight == 0.7
        assert shrinkage in {s for s, _ in SETTINGS}
    assert memory.pool.log_losses.max() > 0, "probabilities are calibrated"


# Budget


def stream(memory, n_tasks, d, n_classes, n=12, seed=0):
    rng = np.random.default_rng(seed)
    for number in range(n_tasks):
        label = number % n_classes
        x = rng.normal(rng.standard_normal(d) * 3, 1, (n, d))
        learn(memory, f"t{number}", x, np.full(n, label))
        memory.consolidate([], CTX)
        yield number


def budget_for(d, n_means, scatters=0):
    spec = spec_of(d)
    return spec.pool_bytes + spec.min_component_bytes * n_means + scatters


def test_components_shrink_when_the_budget_binds():
    budget = budget_for(20, 12, 4_000)
    memory = memory_of(20, [], n_classes=40, memory_budget=budget)
    for _ in stream(memory, 12, 20, 40):
        assert memory.nbytes() <= budget
    sizes = [len(one.scatter) for one in memory.components]
    assert max(sizes) < 20
    assert min(sizes) > 0
    assert all(one.mean.dtype == np.float32 for one in memory.components)


def test_new_components_get_at_least_kappa():
    """κ = .9: the newest component keeps more than the old ones together."""
    sizes = {}
    for kappa in (0.0, 0.9):
        memory = memory_of(
            20, [], n_classes=40, memory_budget=budget_for(20, 10, 1_500), kappa=kappa
        )
        for number in range(10):
            x = np.random.default_rng(number).normal(number, 1, (30, 20))
            awake = MixtureMemory(memory.spec, "stm", 40, SeedStream(0))
            awake.pool = memory.pool
            learn(awake, f"t{number}", x, np.full(30, number))
            memory.pool = awake.pool
            memory.consolidate([awake], CTX)
        sizes[kappa] = [len(one.scatter) for one in memory.components]
    assert sizes[0.9][-1] == 20, "it fits whole"
    assert sizes[0.9][-1] > sizes[0.0][-1]
    assert max(sizes[0.9][:-1]) < sizes[0.0][-1] + 5


def test_tasks_met_more_often_keep_more():
    x, _ = three_classes(20)
    memory = memory_of(
        20, [], n_classes=2, memory_budget=budget_for(20, 2, 800), kappa=0.0, shrinkage=0.1
    )
    memory.learn(Batch(x, np.zeros(120, int)), {"often": TaskInfo(9, frozenset([0]))}, CTX)
    memory.learn(Batch(x, np.ones(120, int)), {"once": TaskInfo(1, frozenset([1]))}, CTX)
    memory.consolidate([], CTX)
    sizes = {one.task: len(one.scatter) for one in memory.components}
    assert sizes["often"] > sizes["once"]


def test_means_of_a_class_merge_before_the_budget_is_exceeded():
    budget = budget_for(20, 5)
    memory = memory_of(20, [], n_classes=3, memory_budget=budget)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in stream(memory, 15, 20, 3):
            assert memory.nbytes() <= budget
    assert {one.label for one in memory.components} == {0, 1, 2}
    assert sum(one.n for one in memory.components) == 15 * 12
    assert memory.components[-1].task == "t14"
    assert list(memory.tasks) == [f"t{n}" for n in range(15)], "the log keeps every task"


def test_one_mean_per_class_is_kept_beyond_the_budget_with_a_warning():
    memory = memory_of(20, [], n_classes=9, memory_budget=budget_for(20, 5))
    with pytest.warns(UserWarning, match="one mean per class needs"):
        for _ in stream(memory, 9, 20, 9):
            pass
    assert len(memory.components) == 9
    assert all(len(one.scatter) == 0 for one in memory.components)
    assert memory.predict_proba(np.zeros((2, 20))).shape == (2, 9)


def test_a_budget_below_the_pool_is_refused_in_one_sentence():
    with pytest.raises(UsageError, match=r"memory_budget is 1,000; 20 features need at least") as e:
        spec_of(20, memory_budget=1_000).check()
    assert "\n" not in str(e.value)


def test_a_covariance_that_is_not_positive_is_an_error_of_ours():
    x, y = three_classes(6)
    memory = memory_of(6, [("a", x, y)])
    memory.pool = replace(memory.pool, scatter=-memory.pool.scatter, _cache={})
    with pytest.raises(DgdmnError, match="not positive"):
        memory.predict_proba(x)


def test_score_parts_of_components_without_scatter_are_tied():
    x, y = three_classes(6)
    memory = memory_of(6, [("a", x, y)], own_covariance=1.0)
    frozen = memory.frozen()
    bare = [
        type(one)(one.task, one.label, one.n, one.mean, np.zeros((0, 0)))
        for one in memory.components
    ]
    tied, own = score_parts(x, bare, memory.pool, frozen, memory.spec)
    assert not own.any()
    whole = score_parts(x, memory.components, memory.pool, frozen, memory.spec)
    np.testing.assert_allclose(tied, whole[0])
    scores = memory.joint_scores(x, [])[0] - size_terms(x, y, frozen.setting[0], y)
    np.testing.assert_allclose(whole[0] + whole[1], scores)
