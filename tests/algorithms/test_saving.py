"""What a saved memory says of the estimator it was, and what it does not."""

import json

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from dgdmn import load, storage
from dgdmn.errors import DgdmnError, UsageError
from dgdmn.presets import Preset
from dgdmn.testing import find_rows


def parameters(place):
    return json.loads((place / "manifest.json").read_text())["parameters"]


def check_twins(model, loaded, tasks):
    """Answers and later learning are the same to the bit."""
    X = np.concatenate([X for X, _ in tasks])
    assert np.array_equal(model.predict_proba(X), loaded.predict_proba(X))
    for each in (model, loaded):
        each.partial_fit(*tasks[2], task="2")
    assert np.array_equal(model.predict_proba(X), loaded.predict_proba(X))


def test_networks_of_ones_own_are_given_again(make, tasks, doubles, tmp_path):
    own = doubles()
    model = make("dgdmn", generator=own.generator, learner=own.learner).partial_fit(*tasks[0], task="0")
    model.save(tmp_path)
    given = {"generator": own.generator, "learner": own.learner}
    for missing in given:
        others = {key: value for key, value in given.items() if key != missing}
        with pytest.raises(
            UsageError, match=rf"with a {missing} of its own, functools.*load\(path, {missing}=…"
        ):
            load(tmp_path, **others)
    check_twins(model, load(tmp_path, **given), tasks)


BEST = {
    "index": "codes",
    "prior_components": 6,
    "soft_labels": 0.5,
    "latent_noise": 1.0,
    "momentum": 0.9,
    "rate": "cycle",
    "dreams": "anew",
    "recognition": "density",
    "answers": "both",
}


@pytest.mark.parametrize("name", ["dgdmn", "dgdmn-recog"])
@pytest.mark.parametrize("awake", [1, 2])
def test_codes_and_a_latent_prior_are_found_again(make, tasks, tmp_path, awake, name):
    model = make(name, n_stm=2, **BEST)
    for number in range(awake):
        model.partial_fit(*tasks[number], classes=[0, 1, 2], task=str(number))
    model.save(tmp_path)
    loaded = load(tmp_path)
    if awake == 2:
        assert all(
            np.array_equal(one, two) for one, two in zip(model.sample(20), loaded.sample(20), strict=True)
        )
    check_twins(model, loaded, tasks)


def test_it_answers_with_the_options_it_learnt_with(make, tasks, tmp_path):
    """Not with those that its parameters, or a preset's name, have come to mean since."""
    model = make("dgdmn", n_stm=1, **BEST)
    for number in range(2):
        model.partial_fit(*tasks[number], classes=[0, 1, 2], task=str(number))
    X = tasks[0][0]
    both = model.predict_proba(X)
    model.set_params(answers="learner").save(tmp_path)
    assert np.array_equal(load(tmp_path).predict_proba(X), both)
    about, state = storage.read(tmp_path)
    del about["options"]
    storage.write(tmp_path, about, state)
    alone = load(tmp_path).predict_proba(X)
    assert not np.allclose(alone, both)
    assert load(tmp_path).learnt_.options.answers == "learner", "there was nothing else when it was not saved"


def test_a_saved_memory_holds_no_row_and_after_sleep_no_code(make, tasks, tmp_path):
    model = make("dgdmn", n_stm=2, sttm_latent=8, **BEST)  # a code of two numbers would be found by chance
    model.partial_fit(*tasks[0], classes=[0, 1, 2], task="0")
    model.save(tmp_path)
    awake = storage.read(tmp_path)[1]
    codes, rows = awake["stm"][0]["index"]["codes"].float(), tasks[0][0].reshape(24, -1)
    assert find_rows(awake, codes) == ["['stm'][0]['index']['codes']"]
    assert find_rows(awake, rows) == []
    model.partial_fit(*tasks[1], task="1")
    model.save(tmp_path)
    asleep = storage.read(tmp_path)[1]
    assert find_rows(asleep, codes) == find_rows(asleep, rows) == []
    asleep["ltm"]["prior"]["planted"] = codes[5:6]
    asleep["ltm"]["generator"]["planted"] = torch.tensor(rows[7:8])
    assert find_rows(asleep, codes) == ["['ltm']['prior']['planted']"]
    assert find_rows(asleep, rows) == ["['ltm']['generator']['planted']"]


class Odd:
    """A generator, by name only."""


def test_a_class_of_ones_own_is_named(make, tasks, doubles, tmp_path):
    model = make("dgr").partial_fit(*tasks[0])
    model.generator = Odd
    model.save(tmp_path)
    with pytest.raises(UsageError, match=r"of its own, .*test_saving\.Odd: load"):
        load(tmp_path)


def test_what_belongs_to_the_process_is_not_saved(name, make, tasks, tmp_path):
    heard = []
    model = make(name, threads=2, listen=heard.append).partial_fit(*tasks[0], task="0")
    model.save(tmp_path)
    assert not {"device", "threads", "listen", "generator", "learner"} & parameters(tmp_path).keys()
    plain, given = load(tmp_path), load(tmp_path, threads=1, listen=print)
    assert (plain.device, plain.threads, plain.listen) == ("cpu", None, None)
    assert (given.threads, given.listen) == (1, print)
    told = len(heard)
    plain.partial_fit(*tasks[1], task="1")
    assert len(heard) == told


def test_a_range_for_each_feature_comes_back(make, tasks, tmp_path):
    flat = [(X.reshape(24, 36) * np.arange(1, 37), y) for X, y in tasks]
    model = make("nn", value_range=(np.zeros(36), np.arange(1.0, 37.0))).partial_fit(*flat[0])
    model.save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.value_range[1] == tuple(range(1, 37))
    check_twins(model, loaded, flat)


def test_a_range_met_in_the_first_task_comes_back_with_its_warning(make, tasks, tmp_path):
    model = make("nn").partial_fit(tasks[0][0] * 10 - 3, tasks[0][1])
    model.save(tmp_path / "before")
    with pytest.warns(UserWarning, match="clipped"):
        expected = model.predict_proba(tasks[0][0] * 30)
    model.save(tmp_path / "after")
    with pytest.warns(UserWarning, match="clipped"):
        assert np.array_equal(load(tmp_path / "before").predict_proba(tasks[0][0] * 30), expected)
    load(tmp_path / "after").predict(tasks[0][0] * 30)  # a second warning would be an error


def test_words_as_labels_come_back_in_order(name, make, tasks, tmp_path):
    words = np.array(["zebra", "ähre", "monkey"])
    named = [(X, words[y]) for X, y in tasks]
    model = make(name).partial_fit(*named[0], task="0").partial_fit(*named[1], task="1")
    model.save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.classes_.tolist() == ["zebra", "ähre"]
    assert loaded.classes_.dtype == model.classes_.dtype
    check_twins(model, loaded, named)


@pytest.mark.parametrize("labels", [[True, False, True], [5.0, 2.0, -1.0], [-3, 2**40, 7]])
def test_labels_keep_their_kind(make, tasks, labels, tmp_path):
    given = [(X, np.asarray(labels)[y]) for X, y in tasks]
    model = make("nn").partial_fit(*given[0]).partial_fit(*given[1])
    model.save(tmp_path)
    assert load(tmp_path).classes_.dtype == model.classes_.dtype
    check_twins(model, load(tmp_path), given)


def test_names_of_features_come_back(make, tasks, tmp_path):
    X, y = tasks[0][0].reshape(24, 36)[:, :3], tasks[0][1]
    model = make("nn").partial_fit(X, y)
    model.feature_names_in_ = np.array(["a", "b", "ç"], dtype=object)  # as a data frame would have them
    model.save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.feature_names_in_.tolist() == ["a", "b", "ç"]
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        loaded.predict(X)


def test_a_preset_of_ones_own_comes_back(make, tasks, tmp_path):
    own = Preset(learner_layers=(7, 5), generator_layers=(9,), batch_size=12, min_steps=np.int64(3))
    model = make("dgr", preset=own, learner_layers=None, generator_layers=None).partial_fit(*tasks[0])
    model.save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.preset == own
    check_twins(model, loaded, tasks)


def test_random_numbers_go_on_whatever_they_came_from(make, tasks, tmp_path):
    model = make("dgdmn", random_state=np.random.RandomState(3)).partial_fit(*tasks[0], task="0")
    model.save(tmp_path)
    assert load(tmp_path).random_state is None
    check_twins(model, load(tmp_path), tasks)


def test_what_has_not_learnt_cannot_be_saved(name, make, tmp_path):
    with pytest.raises(NotFittedError):
        make(name).save(tmp_path / "memory")
    assert not any(tmp_path.iterdir())


def test_a_memory_takes_the_place_of_an_older_one(make, tasks, tmp_path):
    make("dgdmn").partial_fit(*tasks[0], task="0").partial_fit(*tasks[1], task="1").save(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    model = make("nn").partial_fit(*tasks[1])
    model.save(tmp_path)
    assert type(load(tmp_path)) is type(model)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    files = json.loads((tmp_path / "manifest.json").read_text())["files"]
    assert {path.name for path in tmp_path.iterdir()} == {"manifest.json", "notes.txt", *files}
    check_twins(model, load(str(tmp_path)), tasks)


@pytest.mark.parametrize("kind", ["dgdmn", "dgdmn-recog"])
@pytest.mark.parametrize("awake", [1, 2])
def test_a_memory_saved_between_two_sleeps_sleeps_alike(make, tasks, kind, awake, tmp_path):
    model = make(kind, n_stm=3).partial_fit(*tasks[2], task="z").sleep()
    for number in range(awake):
        model.partial_fit(*tasks[number], task=str(number))
    model.save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.awake_tasks() == model.awake_tasks()
    assert len(loaded.awake_tasks()) == awake
    assert loaded.consolidated_tasks() == model.consolidated_tasks() != ()
    assert np.array_equal(loaded.recognise(tasks[0][0]).losses, model.recognise(tasks[0][0]).losses)
    dreams = [each.sleep().sample(9)[0] for each in (model, loaded)]
    assert np.array_equal(*dreams)
    check_twins(model, loaded, tasks)


def test_bytes_stay_bytes(name, make, tasks, tmp_path):
    images = [(np.round(X * 255).astype(np.uint8), y) for X, y in tasks]
    model = make(name).partial_fit(*images[0], task="0")
    model.save(tmp_path)
    floats = images[1][0] / np.float32(255)
    assert np.array_equal(load(tmp_path).predict_proba(floats), model.predict_proba(images[1][0]))
    check_twins(model, load(tmp_path), images)


def test_what_is_no_memory_is_refused(make, tasks, tmp_path):
    (tmp_path / "file").write_text("{}")
    (tmp_path / "empty").mkdir()
    for place in ("absent", "file", "empty", "nul\0"):
        with pytest.raises(DgdmnError, match=r"holds no memory: there is no manifest.json in it"):
            load(tmp_path / place)
    with pytest.raises(DgdmnError, match=r"cannot read .*File name too long; check the path"):
        load(tmp_path / ("x" * 5000))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]


def test_another_directory_of_ours_is_refused(make, tasks, tmp_path):
    storage.write(tmp_path, {"steps": 3, "memory": {}}, {"model": {}, "trainings": []})
    with pytest.raises(DgdmnError, match=r"holds no memory that can be restored \(KeyError: 'parameters'\)"):
        load(tmp_path)


def test_a_word_that_load_does_not_know_is_not_the_memorys_fault(make, tasks, tmp_path):
    make("nn").partial_fit(*tasks[0]).save(tmp_path)
    with pytest.raises(UsageError, match="load takes no n_stm: a memory keeps what it was made with"):
        load(tmp_path, n_stm=3)


def test_a_device_that_is_not_there_is_not_the_memorys_fault(make, tasks, tmp_path):
    make("nn").partial_fit(*tasks[0]).save(tmp_path)
    with pytest.raises(UsageError, match="device 'abacus' cannot be used here"):
        load(tmp_path, device="abacus")
