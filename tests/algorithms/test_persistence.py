"""What a saved memory contains of its estimator, and what it does not."""

import json

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from dgdmn import load, storage
from dgdmn.config import Config
from dgdmn.core.errors import DgdmnError, UsageError
from dgdmn.testing import find_rows

DEEP = {
    "code_buffer": True,
    "prior_components": 6,
    "latent_noise": 1.0,
    "momentum": 0.9,
    "lr_schedule": "one_cycle",
    "resample_dreams": True,
    "recognition": "density",
    "predict_with": "learner+prior",
}


def check_twins(model, loaded, tasks):
    """Answers and later learning are the same to the bit."""
    X = np.concatenate([X for X, _ in tasks])
    assert np.array_equal(model.predict_proba(X), loaded.predict_proba(X))
    for each in (model, loaded):
        each.partial_fit(*tasks[2], task="2")
    assert np.array_equal(model.predict_proba(X), loaded.predict_proba(X))


def test_own_networks_are_passed_again(make, tasks, doubles, tmp_path):
    made = doubles()
    own = {"generator": made.generator, "learner": made.learner}
    model = make("dgdmn", preset="paper", **own).partial_fit(*tasks[0], task="0")
    model.save(tmp_path)
    for missing in own:
        others = {key: value for key, value in own.items() if key != missing}
        with pytest.raises(
            UsageError, match=rf"its own {missing}, functools.*load\(path, {missing}=…"
        ):
            load(tmp_path, **others)
    check_twins(model, load(tmp_path, **own), tasks)


class OwnGenerator:
    """A generator by name only."""


def test_an_own_class_is_named(make, tasks, tmp_path):
    model = make("dgr").partial_fit(*tasks[0])
    model.generator = OwnGenerator
    model.save(tmp_path)
    with pytest.raises(UsageError, match=r"its own generator, .*test_persistence\.OwnGenerator;"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["dgdmn", "dgdmn-recog"])
@pytest.mark.parametrize("awake", [1, 2])
def test_codes_and_a_latent_prior_come_back(make, tasks, tmp_path, awake, name):
    model = make(name, n_stm=2, **DEEP)
    for number in range(awake):
        model.partial_fit(*tasks[number], classes=[0, 1, 2], task=str(number))
    model.save(tmp_path)
    loaded = load(tmp_path)
    if awake == 2:
        for one, two in zip(model.sample(20), loaded.sample(20), strict=True):
            assert np.array_equal(one, two)
    check_twins(model, loaded, tasks)


def test_a_loaded_memory_uses_the_options_it_learned_with(make, tasks, tmp_path):
    """Its parameters, and what a preset's name means, may have changed since."""
    model = make("dgdmn", n_stm=1, **DEEP)
    for number in range(2):
        model.partial_fit(*tasks[number], classes=[0, 1, 2], task=str(number))
    X = tasks[0][0]
    with_prior = model.predict_proba(X)
    model.set_params(predict_with="learner").save(tmp_path)
    loaded = load(tmp_path)
    assert np.array_equal(loaded.predict_proba(X), with_prior)
    assert (loaded.predict_with, loaded.info().config.predict_with) == ("learner", "learner+prior")
    fresh = model.fit(X, tasks[0][1])
    assert fresh.info().config.predict_with == "learner"


def test_a_saved_memory_contains_no_row_and_after_sleep_no_code(make, tasks, tmp_path):
    model = make("dgdmn", n_stm=2, sttm_latent_dim=8, **DEEP)  # short codes would match by chance
    model.partial_fit(*tasks[0], classes=[0, 1, 2], task="0")
    model.save(tmp_path)
    awake = storage.read(tmp_path)[1]
    codes, rows = awake["stm"][0]["codes"]["codes"], tasks[0][0].reshape(24, -1)
    assert codes.shape == (24, 8)
    codes = codes.astype(np.float32)
    assert find_rows(awake, codes) == ["['stm'][0]['codes']['codes']"]
    assert find_rows(awake, rows) == []
    model.partial_fit(*tasks[1], task="1")
    model.save(tmp_path)
    asleep = storage.read(tmp_path)[1]
    assert find_rows(asleep, codes) == find_rows(asleep, rows) == []
    asleep["ltm"]["prior"]["planted"] = codes[5:6].copy()
    asleep["ltm"]["generator"]["planted"] = rows[7:8].copy()
    assert find_rows(asleep, codes) == ["['ltm']['prior']['planted']"]
    assert find_rows(asleep, rows) == ["['ltm']['generator']['planted']"]


@pytest.mark.parametrize("name", ["nn", "dgdmn"])
def test_parameters_of_the_process_are_not_saved(name, make, tasks, tmp_path):
    events = []
    model = make(name, threads=2, callback=events.append).partial_fit(*tasks[0], task="0")
    model.save(tmp_path)
    saved = json.loads((tmp_path / "manifest.json").read_text())["parameters"]
    assert not {"device", "threads", "callback", "generator", "learner", "memory"} & saved.keys()
    plain, given = load(tmp_path), load(tmp_path, threads=1, callback=print)
    assert (plain.device, plain.threads, plain.callback) == ("cpu", None, None)
    assert (given.threads, given.callback) == (1, print)
    n_events = len(events)
    plain.partial_fit(*tasks[1], task="1")
    assert len(events) == n_events


def test_a_generator_by_name_is_saved(make, tasks, tmp_path):
    model = make("dgr", generator="vae").partial_fit(*tasks[0])
    model.save(tmp_path)
    assert load(tmp_path).generator == "vae"
    check_twins(model, load(tmp_path), tasks)


def test_a_range_for_each_feature_comes_back(make, tasks, tmp_path):
    flat = [(X.reshape(24, 36) * np.arange(1, 37), y) for X, y in tasks]
    model = make("nn", value_range=(np.zeros(36), np.arange(1.0, 37.0))).partial_fit(*flat[0])
    model.save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.value_range[1] == tuple(range(1, 37))
    check_twins(model, loaded, flat)


def test_the_range_of_the_first_task_comes_back_with_its_warning(make, tasks, tmp_path):
    model = make("nn").partial_fit(tasks[0][0] * 10 - 3, tasks[0][1])
    model.save(tmp_path / "before")
    with pytest.warns(UserWarning, match="clipped"):
        expected = model.predict_proba(tasks[0][0] * 30)
    model.save(tmp_path / "after")
    with pytest.warns(UserWarning, match="clipped"):
        assert np.array_equal(load(tmp_path / "before").predict_proba(tasks[0][0] * 30), expected)
    load(tmp_path / "after").predict(tasks[0][0] * 30)  # a second warning would be an error


@pytest.mark.parametrize(
    "labels",
    [["zebra", "ähre", "ant"], [True, False, True], [5.0, 2.0, -1.0], [-3, 2**40, 7]],
    ids=["text", "bool", "float", "int"],
)
@pytest.mark.parametrize("name", ["nn", "joint", "dgdmn"])
def test_labels_keep_their_kind_and_order(name, make, tasks, labels, tmp_path):
    given = [(X, np.asarray(labels)[y]) for X, y in tasks]
    model = make(name).partial_fit(*given[0], task="0").partial_fit(*given[1], task="1")
    model.save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.classes_.tolist() == model.classes_.tolist()
    check_twins(model, loaded, given)


def test_feature_names_come_back(make, tasks, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = tasks[0][0].reshape(24, 36)[:, :3], tasks[0][1]
    model = make("nn").partial_fit(pandas.DataFrame(X, columns=["a", "b", "ç"]), y)
    model.save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.feature_names_in_.tolist() == ["a", "b", "ç"]
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        loaded.predict(X)


def test_an_own_config_comes_back(make, tasks, tmp_path):
    own = Config(learner_layers=(7, 5), generator_layers=(9,), min_steps=np.int64(3))
    model = make("dgr", preset=own, learner_layers=None, generator_layers=None)
    model.partial_fit(*tasks[0]).save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.preset == own
    check_twins(model, loaded, tasks)


def test_random_numbers_continue_from_a_numpy_random_state(make, tasks, tmp_path):
    model = make("dgdmn", random_state=np.random.RandomState(3)).partial_fit(*tasks[0], task="0")
    model.save(tmp_path)
    assert load(tmp_path).random_state is None
    check_twins(model, load(tmp_path), tasks)


def test_an_unfitted_estimator_cannot_be_saved(make, tmp_path):
    with pytest.raises(NotFittedError):
        make("dgdmn").save(tmp_path / "memory")
    assert not any(tmp_path.iterdir())


def test_a_memory_replaces_an_older_one(make, tasks, tmp_path):
    make("dgdmn").partial_fit(*tasks[0], task="0").partial_fit(*tasks[1], task="1").save(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    model = make("nn").partial_fit(*tasks[1])
    model.save(tmp_path)
    assert type(load(tmp_path)) is type(model)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    files = json.loads((tmp_path / "manifest.json").read_text())["files"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "manifest.json",
        "notes.txt",
        ".lock",
        *files,
    }
    check_twins(model, load(str(tmp_path)), tasks)


@pytest.mark.parametrize("kind", ["dgdmn", "dgdmn-recog"])
@pytest.mark.parametrize("preset", ["deep", "best"])
@pytest.mark.parametrize("awake", [1, 2])
def test_a_memory_saved_between_two_sleeps_sleeps_the_same(
    make, tasks, kind, preset, awake, tmp_path
):
    model = make(kind, preset=preset, n_stm=3).partial_fit(*tasks[2], task="z").sleep()
    for number in range(awake):
        model.partial_fit(*tasks[number], task=str(number))
    model.save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.awake_tasks() == model.awake_tasks()
    assert len(loaded.awake_tasks()) == awake
    assert loaded.consolidated_tasks() == model.consolidated_tasks() != ()
    X = tasks[0][0]
    assert np.array_equal(loaded.recognize(X).losses, model.recognize(X).losses)
    assert np.array_equal(*[each.sleep().sample(9)[0] for each in (model, loaded)])
    check_twins(model, loaded, tasks)


@pytest.mark.parametrize("name", ["nn", "er", "dgdmn"])
def test_bytes_stay_bytes(name, make, tasks, tmp_path):
    images = [(np.round(X * 255).astype(np.uint8), y) for X, y in tasks]
    model = make(name).partial_fit(*images[0], task="0")
    model.save(tmp_path)
    floats = images[1][0] / np.float32(255)
    assert np.array_equal(load(tmp_path).predict_proba(floats), model.predict_proba(images[1][0]))
    check_twins(model, load(tmp_path), images)


def test_a_place_without_a_memory_is_refused(tmp_path):
    (tmp_path / "file").write_text("{}")
    (tmp_path / "empty").mkdir()
    for place in ("absent", "file", "empty", "nul\0"):
        with pytest.raises(DgdmnError, match=r"no memory.*manifest\.json"):
            load(tmp_path / place)
    with pytest.raises(DgdmnError, match=r"cannot read .*File name too long"):
        load(tmp_path / ("x" * 5000))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]


def test_another_directory_in_the_same_format_is_refused(tmp_path):
    storage.write(tmp_path, {"steps": 3, "memory": {}}, {"model": {}, "trainings": []})
    with pytest.raises(DgdmnError, match=r"is not a memory that can be loaded \(KeyError: "):
        load(tmp_path)


def test_wrong_arguments_of_load_are_usage_errors(make, tasks, tmp_path):
    make("nn").partial_fit(*tasks[0]).save(tmp_path)
    with pytest.raises(UsageError, match="load takes no n_stm; a memory keeps what it was made"):
        load(tmp_path, n_stm=3)
    with pytest.raises(UsageError, match="device 'abacus' cannot be used here"):
        load(tmp_path, device="abacus")
