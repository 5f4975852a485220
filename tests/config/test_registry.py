"""The registry: what is built in, what other packages add, and what is refused."""

import subprocess
import sys
from dataclasses import fields
from fractions import Fraction

import pytest

from dgdmn.config import PAPER, Config, registry
from dgdmn.config.registry import (
    ALGORITHMS,
    CLOSED_FORM_OPTIONS,
    GENERATORS,
    MIXTURE_OPTIONS,
    STREAM_OPTIONS,
    STREAMS,
    AlgorithmInfo,
    algorithm_info,
    generator_info,
    load_target,
    stream_info,
)
from dgdmn.core.errors import UsageError
from dgdmn.streams import fetch

OF_SHORT_TERM_MEMORY = {
    field.name for field in fields(Config) if field.name.startswith("sttm_")
} | {"n_stm", "kappa_per"}


@pytest.fixture
def no_cache():
    """Entry points are read again, before and after a test."""
    registry._entry_points.cache_clear()
    yield
    registry._entry_points.cache_clear()


@pytest.mark.parametrize("info", [*ALGORITHMS.values(), *STREAMS.values(), *GENERATORS.values()])
def test_every_target_exists(info):
    assert callable(load_target(info.target))


def test_every_algorithm_is_described():
    assert len(ALGORITHMS) >= 13
    for name, info in ALGORITHMS.items():
        assert info.name == name
        assert all((info.title, info.category, info.keeps, info.source))
        assert info is algorithm_info(name)
    assert len({info.title for info in ALGORITHMS.values()}) == len(ALGORITHMS)


def test_traits_agree_with_the_classes():
    for info in ALGORITHMS.values():
        kind = load_target(info.target)
        assert info.generative == hasattr(kind, "sleep"), info.name
        assert info.short_term == ("n_stm" in kind._get_param_names()), info.name
        assert info.exemplars == ("exemplars" in kind._get_param_names()), info.name


def test_every_stream_has_data_or_none_and_presets_name_streams():
    assert STREAMS.keys() >= PAPER.keys()
    assert {info.dataset for info in STREAMS.values()} == {*fetch.DATASETS, None}
    assert all(info.about for info in STREAMS.values())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_unused_options_are_those_of_parts_that_are_not_there(name):
    """Algorithms that keep rows may keep as many bytes as DGDMN, so its options matter to them."""
    info, options = algorithm_info(name), {field.name for field in fields(Config)}
    used = {option for option in options if not info.unused(option)}
    assert used == {option for option in options if not info.unused(option, {"generator": "vae"})}
    if info.closed_form:
        assert used == {*CLOSED_FORM_OPTIONS, *STREAM_OPTIONS, "n_classes"}
        return
    matters = name in ("dgdmn", "dgdmn-recog", "gem", "icarl", "er")
    networks = options - {*CLOSED_FORM_OPTIONS, *MIXTURE_OPTIONS}
    assert used == (networks if matters else networks - OF_SHORT_TERM_MEMORY)


OF_MIXTURE = {
    *MIXTURE_OPTIONS,
    *STREAM_OPTIONS,
    *("kappa", "n_classes", "features", "code_seed", "shrinkage"),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_with_a_mixture_memory_no_option_of_its_networks_is_used(name):
    """Algorithms that keep rows may keep as many bytes as the budget; all others do not see the mixture."""
    info, options = algorithm_info(name), {field.name for field in fields(Config)}
    used = {option for option in options if not info.unused(option, {"generator": "mixture"})}
    without = {option for option in options if not info.unused(option)}
    if info.generative:
        assert used == OF_MIXTURE | ({"n_stm"} if info.short_term else set())
    elif info.exemplars:
        assert used == without - OF_SHORT_TERM_MEMORY | {"generator", "memory_budget"}
    else:
        assert used == without


@pytest.mark.parametrize(
    ("find", "name", "message"),
    [
        (
            algorithm_info,
            "dgdnm",
            r"no algorithm 'dgdnm' \(did you mean dgdmn\?\); there are nn, dr",
        ),
        (algorithm_info, "", "no algorithm ''; there are nn"),
        (algorithm_info, "xyz", "no algorithm 'xyz'; there are nn"),
        (stream_info, "digts", r"no stream 'digts' \(did you mean digits\?\); there are digits"),
        (
            generator_info,
            "vea",
            r"no generator 'vea' \(did you mean vae\?\); there are mixture, vae",
        ),
        (generator_info, "mixtur", r"no generator 'mixtur' \(did you mean mixture\?\)"),
    ],
)
def test_unknown_names_are_refused_with_a_suggestion(find, name, message):
    with pytest.raises(UsageError, match=message) as raised:
        find(name)
    assert "\n" not in str(raised.value)


def test_an_algorithm_may_be_a_class_of_another_package():
    info = algorithm_info("fractions:Fraction")
    assert (info.name, info.title, info.category) == ("fractions:Fraction", "Fraction", "custom")
    assert [info.generative, info.short_term, info.exemplars] == [False] * 3
    assert load_target(info.target) is Fraction


def test_a_stream_may_be_a_function_of_another_package():
    info = stream_info("math:gcd")
    assert (info.name, info.title, info.target, info.dataset) == (
        "math:gcd",
        "gcd",
        "math:gcd",
        None,
    )


@pytest.mark.parametrize(
    "target",
    [
        "no_such_module:A",
        "fractions:NoSuchClass",
        "fractions:",
        "fractions",
        ":A",
        "a b:c",
        ".a:b",
        "os..path:a",
    ],
)
def test_what_cannot_be_imported_is_refused_in_one_sentence(target):
    with pytest.raises(UsageError, match=r"cannot import .*; give package.module:Class") as raised:
        load_target(target)
    assert "\n" not in str(raised.value)


ENTRY_POINTS = """
[dgdmn.algorithms]
mine = fractions:Fraction
dgdmn = fractions:Fraction

[dgdmn.streams]
weather = fractions:gcd

[dgdmn.generators]
gan = fractions:Decimal
"""


@pytest.fixture
def package(tmp_path):
    """An installed package with entry points."""
    home = tmp_path / "other-1.0.dist-info"
    home.mkdir()
    (home / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (home / "entry_points.txt").write_text(ENTRY_POINTS)
    return tmp_path


def test_entry_points_add_names(package, monkeypatch, no_cache):
    with pytest.raises(UsageError, match="no algorithm 'mine'"):
        algorithm_info("mine")
    registry._entry_points.cache_clear()
    monkeypatch.syspath_prepend(package)
    title, target = "Fraction", "fractions:Fraction"
    expected = AlgorithmInfo("mine", title, target, "custom", "not stated", "fractions")
    assert algorithm_info("mine") == expected
    assert algorithm_info("dgdmn").title == "DGDMN", "built-in names cannot be replaced"
    assert stream_info("weather").target == "fractions:gcd"
    assert generator_info("gan").target == "fractions:Decimal"
    with pytest.raises(UsageError, match=r"did you mean mine\?.*, mine"):
        algorithm_info("mime")


def test_entry_points_are_not_imported_before_they_are_used(monkeypatch, no_cache):
    points = [type("Point", (), {"name": "broken", "value": "no_such_module:A"})]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    assert algorithm_info("broken").target == "no_such_module:A"
    with pytest.raises(UsageError, match="cannot import 'no_such_module:A'"):
        load_target(algorithm_info("broken").target)


def test_the_registry_needs_no_torch():
    code = "import sys, dgdmn.config.registry as r; r.algorithm_info('dgdmn'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
