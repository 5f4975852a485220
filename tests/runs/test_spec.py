"""What a run is called, how it is found again, and which combinations are refused."""

import json
from dataclasses import replace

import pytest

from dgdmn.config import Config, override, resolve
from dgdmn.core.errors import UsageError
from dgdmn.records import RunRecord, RunWriter, run_key
from dgdmn.runs.spec import RunSpec, find_run


def spec(stream="embedded", algorithm="dgdmn", preset="paper", changes=None, **others):
    options = override(resolve(preset, stream), changes or {})
    return RunSpec(stream, algorithm, preset, options, **others)


def write(spec, directory):
    """A run directory with nothing but its configuration."""
    config = {"key": spec.key, **spec.identity(), "device": "cpu", "threads": 1, "tasks": ["0"]}
    RunWriter(directory, config)
    return directory


@pytest.mark.parametrize(
    ("one", "name"),
    [
        (spec(), "embedded-dgdmn-paper-seed0"),
        (spec(preset="best", seed=3), "embedded-dgdmn-best-seed3"),
        (
            spec(changes={"kappa": 0.05, "n_stm": 5}),
            "embedded-dgdmn-paper-n_stm-5-kappa-0.05-seed0",
        ),
        (spec(changes={"learner_layers": (8, 4)}), "embedded-dgdmn-paper-learner_layers-8.4-seed0"),
        (spec(revise=(1, 6)), "embedded-dgdmn-paper-revise-1.6-seed0"),
        (spec(together=True), "embedded-dgdmn-paper-together-seed0"),
        (spec(evaluate_on="validation"), "embedded-dgdmn-paper-on-validation-seed0"),
        (spec(algorithm="dgr", changes={"n_stm": 5}), "embedded-dgr-paper-seed0"),
        (spec(algorithm="my.module:Class"), "embedded-my.module.Class-paper-seed0"),
        (
            spec(algorithm="er", changes={"exemplars": 5}, arguments={"features": "none", "c": 1}),
            "embedded-er-paper-exemplars-5-c_1-features_none-seed0",
        ),
    ],
)
def test_the_name_says_what_differs_from_the_preset(one, name):
    assert one.name == name


def test_very_many_options_still_make_a_file_name():
    many = {"kappa": 0.25, "n_stm": 7, "generator_epochs": 31, "learner_epochs": 33, "beta": 0.7}
    many |= {"sttm_generator_layers": (16, 17), "sttm_learner_layers": (18, 19), "clip_norm": 3.5}
    many |= {"generator_layers": (20, 21), "clip_value": 4.5, "joint_epochs": 35}
    one, other = (
        RunSpec("digits", "dgdmn", "paper", Config(**many)),
        RunSpec("digits", "dgdmn", "paper", Config(**{**many, "beta": 0.8})),
    )
    assert len(one.name) < 200
    assert one.name != other.name
    assert "-options-" in one.name


def test_a_name_that_leaves_the_directory_is_refused():
    with pytest.raises(UsageError, match=r"run name is '\.\.\.digits-nn-best-seed0'"):
        _ = RunSpec("../digits", "nn", "best", resolve("best")).name


def test_wrong_combinations_are_refused():
    with pytest.raises(
        UsageError, match="revise names task 2, but together learns all tasks at once"
    ):
        spec(together=True, revise=(2,))
    with pytest.raises(UsageError, match="tdigits_classes is 10, but the stream is digits"):
        spec("digits", changes={"tdigits_classes": 10})
    assert "-tdigits_classes-10-" in spec("tdigits", changes={"tdigits_classes": 10}).name


def test_arguments_are_part_of_the_key_and_no_arguments_are_not():
    one = spec(arguments={"features": "none", "units": 5})
    assert one.key == spec(arguments={"units": 5, "features": "none"}).key
    assert len({one.key, spec(arguments={"units": 5}).key, spec().key}) == 3
    old = {key: value for key, value in spec().identity().items() if key != "arguments"}
    assert run_key(old) == spec().key, "runs from before there were arguments are found"


@pytest.mark.parametrize("wrong", [[], {"units": [3]}, {"callback": "x"}, {3: 4}])
def test_arguments_are_plain_values(wrong):
    with pytest.raises(UsageError, match=r"arguments is .*; it must be names with text, numbers"):
        spec(arguments=wrong)


def test_together_trains_as_long_as_joint_and_sleeps_at_once():
    assert spec().training_options() == spec().options
    options = spec(together=True).training_options()
    assert (options.learner_epochs, options.n_stm) == (20, 1)
    assert spec(together=True).options.learner_epochs == 6, "what was asked for is recorded"


def test_a_recorded_run_gives_its_spec_back(tmp_path):
    one = spec(arguments={"features": "none"})
    assert RunSpec.from_record(RunRecord.read(write(one, tmp_path / "own"))) == one
    one = spec(seed=4, revise=(1, 2), changes={"learner_layers": (7,)}, evaluate_on="validation")
    assert RunSpec.from_record(RunRecord.read(write(one, tmp_path / "run"))) == one
    path = tmp_path / "run" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"options": {"dataset": 3}}))
    with pytest.raises(UsageError, match=r"config\.json does not describe a run .*; run it again"):
        RunSpec.from_record(RunRecord.read(tmp_path / "run"))


def test_a_run_is_found_by_its_key_whatever_its_directory_and_preset_are_called(tmp_path):
    assert find_run(spec(), tmp_path) is None
    write(replace(spec(), preset="quick"), tmp_path / "renamed")
    assert find_run(spec(), tmp_path).name == "renamed"
    assert find_run(spec(seed=1), tmp_path) is None


def test_another_run_in_the_directory_of_the_same_name_is_refused(tmp_path):
    other = replace(spec(), options=override(spec().options, {"kappa": 0.5}))
    write(other, tmp_path / spec().name)
    with pytest.raises(UsageError, match=r"holds a run with kappa = 0\.5, not 0\.0; remove it or"):
        find_run(spec(), tmp_path)


def test_options_that_the_algorithm_does_not_use_do_not_matter(tmp_path):
    for name, found in (("dgr", True), ("dgdmn", False)):
        write(spec(algorithm=name, changes={"sttm_latent_dim": 3}), tmp_path / name)
        assert bool(find_run(spec(algorithm=name), tmp_path)) == found
