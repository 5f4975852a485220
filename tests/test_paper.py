"""The package data against the paper's own tables, copied here as the LaTeX prints them."""

import math
import subprocess
import sys

import pytest

from dgdmn.errors import UsageError
from dgdmn.paper import Published, curve, curve_names, published, table, tdigits_seconds

ACC = r"""
NN & 0.1 & 0.588 & 0.167 & 0.125 \\
DropNN & 0.1 & 0.59 & 0.167 & 0.125 \\
PPR & 0.1 & 0.574 & 0.167 & 0.134 \\
EWC & 0.1 & 0.758 & 0.167 & 0.125 \\
DGR & 0.596 & \textbf{0.861} & 0.661 & \textbf{0.731} \\
DGDMN & \textbf{0.818} & 0.831 & \textbf{0.722} & 0.658 \\
"""
BWT = r"""
NN & -0.778 & -0.434 & -0.4 & -1.0 \\
DropNN & -1.0 & -0.43 & -0.8 & -1.0 \\
PPR & -0.444 & -0.452 &-0.2 & -0.989 \\
EWC & -1.0 & -0.05 & -1.0 & -1.0 \\
DGR & -0.425 & \textbf{-0.068} & -0.288 & \textbf{-0.270} \\
DGDMN & \textbf{-0.15} & -0.075 & \textbf{-0.261} & -0.335 \\
"""
DATASETS = ("digits", "permnist", "shapes", "hindi")


def parse(latex):
    rows = {}
    for line in latex.strip().splitlines():
        name, *cells = line.replace(r"\textbf{", "").replace("}", "").removesuffix(r"\\").split("&")
        rows[name.strip().lower()] = dict(zip(DATASETS, map(float, cells), strict=True))
    return rows


@pytest.mark.parametrize(("name", "latex"), [("acc", ACC), ("bwt", BWT)])
def test_tables_are_the_papers(name, latex):
    assert table(name) == parse(latex)


def test_a_table_is_the_callers_own():
    table("acc")["nn"]["digits"] = 1.0
    assert table("acc")["nn"]["digits"] == 0.1


def test_published():
    assert published("dgr", "hindi") == Published(acc=0.731, bwt=-0.27)
    assert published("dgdmn-recog", "digits") == Published(acc=0.766, bwt=-0.197)
    assert published("dgdmn-recog", "hindi") is None
    assert published("dgdmn", "tdigits") is None
    assert published("gem", "digits") is None


def test_curves_end_where_the_pictures_do():
    digits = curve("digits_avg_v1")
    assert digits.x == tuple(range(1, 11))
    assert set(digits.series) == {"ewc", "dgr", "dgdmn", "joint"}
    assert (digits.series["dgdmn"][-1], digits.series["dgr"][-1]) == (0.693, 0.674)
    assert math.isnan(digits.series["dgr"][0])
    assert curve("tdigits_last10").series["dgr"][-1] == 0.413


def test_every_series_has_a_value_for_each_x():
    assert {"tdigits_time_s", "tdigits_avg_acc", "permnist_avg_v1", "noise", "occlusion"} < set(curve_names())
    for name in curve_names():
        figure = curve(name)
        assert figure.name == name
        assert figure.series
        assert {len(values) for values in figure.series.values()} == {len(figure.x)}


def test_accuracies_are_read_to_within_a_hundredth():
    for name in set(curve_names()) - {"tdigits_time_s"}:
        for values in curve(name).series.values():
            assert all(math.isnan(value) or 0 <= value <= 1.01 for value in values)


def test_noise_and_occlusion():
    noise, occlusion = curve("noise"), curve("occlusion")
    assert noise.x == (0, 0.1, 0.15, 0.2, 0.25, 0.3)
    assert noise.series["nn"] == (0.965, 0.948, 0.918, 0.873, 0.809, 0.745)
    assert noise.series["ltm"] == (0.951, 0.938, 0.918, 0.892, 0.854, 0.813)
    assert occlusion.x == (0.1, 0.13, 0.16, 0.19, 0.22, 0.25, 0.28)
    assert occlusion.series["nn"] == (0.938, 0.938, 0.798, 0.798, 0.611, 0.611, 0.611)
    assert occlusion.series["ltm"] == (0.943, 0.94, 0.879, 0.882, 0.749, 0.748, 0.748)


def test_training_time_agrees_with_its_curve():
    seconds = tdigits_seconds()
    assert seconds == {"dgr": 29050, "dgdmn": 8790}
    for algorithm, total in seconds.items():
        assert curve("tdigits_time_s").series[algorithm][-1] == pytest.approx(total, abs=5)


@pytest.mark.parametrize(
    ("call", "choices"), [(lambda: table("fwt"), "acc or bwt"), (lambda: curve("x"), "noise")]
)
def test_an_unknown_name_lists_the_known(call, choices):
    with pytest.raises(UsageError, match=choices) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_reading_imports_nothing_heavy():
    code = "import sys, dgdmn.paper, dgdmn.records, dgdmn.metrics; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
