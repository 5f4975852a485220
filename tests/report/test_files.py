"""Files: figures a paper can take unchanged, the same bytes again, names that stay in their directory."""

import subprocess
import sys
import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from dgdmn import paper
from dgdmn.disk import replace
from dgdmn.errors import DgdmnError, UsageError
from dgdmn.report import figures, write_figures, write_report
from dgdmn.report.colours import LOOKS
from dgdmn.report.figures.canvas import PAPER, style
from dgdmn.report.runs import read_runs


@pytest.fixture
def runs(make_run):
    """A little of everything."""
    options = {"tasks": 3, "side": 4}
    return read_runs([
        make_run("dgdmn", **options), make_run("nn", algorithm="nn", **options),
        make_run("recog", algorithm="dgdmn-recog", **options), make_run("revised", revise=[1], **options),
        make_run("together", together=True, steps=1, **options),
    ])[0]  # fmt: skip


def test_every_figure_as_svg_and_pdf(runs, tmp_path):
    before = dict(mpl.rcParams)
    written = write_figures(runs, tmp_path / "one")
    assert {path.stem.removeprefix("digits-") for path in written} == {
        "curves", "curves-ltm", "revision", "forgetting", "resilience", "tsne", "recognition",
        "dreams-2-dgdmn", "dreams-3-dgdmn-recog", "dreams-5-dgdmn",
    }  # fmt: skip
    assert dict(mpl.rcParams) == before
    for path in written:
        if path.suffix == ".svg":
            assert ET.parse(path).getroot().tag.endswith("svg")
        else:
            content = path.read_bytes()
            assert content.startswith(b"%PDF")
            assert b"/FontFile2" in content, "fonts are embedded, as TrueType"
            assert b"/Type3" not in content


def test_the_same_runs_give_the_same_bytes(runs, tmp_path):
    one, two = (write_figures([runs[1]], tmp_path / name) for name in ("one", "two"))
    assert [path.name for path in one] == [path.name for path in two]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_curves_have_the_papers_axes_order_and_colours(runs):
    figure = figures.accuracy_curves(runs)
    assert [axes.get_title() for axes in figure.axes] == ["NN", "DGDMN", "DGDMN-recog"]
    assert {(axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes} == {
        ("tasks seen", "accuracy on task")
    }
    lines = figures.forgetting_curves(runs).axes[0].get_lines()
    colours = {line.get_label(): line.get_color() for line in lines if not line.get_label().startswith("_")}
    assert colours.pop(PAPER) == LOOKS["dgdmn"].light
    alone = {name: colours.pop(name) for name in list(colours) if name.endswith("LTM alone")}
    assert colours == {look.name: look.light for look in LOOKS.values() if look.name in colours}
    assert list(colours) == ["NN", "DGDMN", "DGDMN-recog"]
    assert alone == {f"{name}, LTM alone": colours[name] for name in ("DGDMN", "DGDMN-recog")}
    sheet = figures.revision_curves(runs)
    assert [axes.get_title() for axes in sheet.axes] == ["DGDMN"]


def test_a_long_stream_has_a_figure_of_its_own(make_run):
    runs, _ = read_runs(
        [
            make_run("a", tasks=20, artefacts="none"),
            make_run("b", tasks=20, algorithm="dgr", artefacts="none"),
        ]
    )
    figure = figures.long_stream(runs)
    assert [axes.get_title() for axes in figure.axes] == [
        "tasks seen so far",
        "last 10 tasks seen",
        "training time",
    ]
    for axes, last in zip(figure.axes, (20, 10), strict=False):
        lines = {line.get_label(): list(line.get_ydata()) for line in axes.get_lines()}
        slept = [np.mean(row[max(0, done - last) : done]) for done, row in enumerate(runs[0].accuracy_ltm, 1)]
        assert lines["DGDMN, LTM alone"] == pytest.approx(slept, nan_ok=True), "between sleeps it is below"
        assert "DGR, LTM alone" not in lines
    assert figures.long_stream(read_runs([make_run("c")])[0]) is None


def dots(axes):
    """The paper's values in a panel, by colour."""
    return {line.get_color(): line for line in axes.get_lines() if line.get_label() == PAPER}


def test_the_papers_values_are_drawn_and_in_the_legend(make_run):
    options = {"dataset": "tdigits", "tasks": 40, "artefacts": "none"}
    runs, _ = read_runs([make_run("a", **options), make_run("b", algorithm="dgr", **options)])
    figure = figures.long_stream(runs)
    for axes, name in zip(figure.axes, ("tdigits_avg_acc", "tdigits_last10"), strict=False):
        for algorithm, values in paper.curve(name).series.items():
            drawn = dots(axes)[LOOKS[algorithm].light]
            assert list(drawn.get_xdata()) == list(range(1, 41))
            assert list(drawn.get_ydata()) == pytest.approx(values, nan_ok=True)
    time = figure.axes[2]
    assert time.get_title() == "training time\n(dots scaled to our DGR's last)"
    assert dots(time)[LOOKS["dgr"].light].get_ydata()[-1] == pytest.approx(160), "ours: 4 s a task"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "DGR", "DGDMN", "DGDMN, LTM alone", PAPER,
    ]  # fmt: skip
    alone = figures.long_stream(runs[:1])
    assert dots(alone.axes[2]) == {}, "no DGR to scale by"
    assert alone.axes[2].get_title() == "training time"


def test_the_papers_resilience_is_drawn_where_all_was_learnt_together(make_run):
    few = {"tasks": 3, "side": 4}
    sequential, together = (
        make_run("a", **few),
        make_run("b", algorithm="dgr", together=True, steps=1, **few),
    )
    assert [dots(axes) for axes in figures.resilience_curves(read_runs([sequential])[0]).axes] == [{}, {}]
    for kind, axes in zip(
        ("noise", "occlusion"),
        figures.resilience_curves(read_runs([sequential, together])[0]).axes,
        strict=True,
    ):
        assert {colour: list(line.get_ydata()) for colour, line in dots(axes).items()} == {
            LOOKS["dgr"].light: list(paper.curve(kind).series["ltm"])
        }


@pytest.mark.parametrize("draw", [getattr(figures, name) for name in figures.__all__], ids=figures.__all__)
def test_nothing_to_show_is_no_figure(make_run, draw):
    runs, _ = read_runs([make_run("r", steps=0, algorithm="nn", artefacts="none")])
    assert draw(runs) is None
    assert draw([]) is None


def test_names_are_no_formulas_and_no_paths(make_run, tmp_path):
    runs, _ = read_runs([
        make_run("a", task_names=["$x", "_b", "क", r"\frac{"], algorithm="$$", dataset="../../up", artefacts="none"),
        make_run("b", dataset="..//up", algorithm="nn"),
    ])  # fmt: skip
    written = write_figures(runs, tmp_path / "figures")
    assert {path.parent for path in written} == {tmp_path / "figures"}
    assert len({path.name for path in written}) == len(written) == len(list((tmp_path / "figures").iterdir()))


def test_the_users_settings_do_not_matter():
    with mpl.rc_context({"axes.facecolor": "red", "pdf.fonttype": 3}), style():
        assert Figure().subplots().get_facecolor() == (1, 1, 1, 1)
        assert mpl.rcParams["pdf.fonttype"] == 42


def test_no_figure_touches_pyplot(runs, tmp_path):
    code = (
        "import sys; from pathlib import Path; from dgdmn.report import *\n"
        f"runs, _ = read_runs([Path({str(runs[1].record.directory)!r})])\n"
        f"write_figures(runs, Path({str(tmp_path / 'f')!r}))\n"
        "print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "True False False\n"


def test_the_page_is_replaced_whole_and_links_to_its_figures(make_run, tmp_path):
    make_run("a", algorithm="nn")
    out = tmp_path / "new" / "report.html"
    write_report([tmp_path / "runs"], out, tmp_path / "figures")
    assert 'href="../figures/"' in out.read_text(encoding="utf-8")
    assert (tmp_path / "figures" / "digits-curves.pdf").exists()
    write_report([tmp_path / "runs"], out, None)
    assert "SVG and PDF" not in out.read_text(encoding="utf-8")
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]


def test_where_nothing_can_be_written(make_run, tmp_path):
    path = make_run("a", algorithm="nn")
    with pytest.raises(UsageError, match="is a directory: name the file"):
        write_report([path], tmp_path, None)
    replace(tmp_path / "file", b"")
    with pytest.raises(DgdmnError, match="cannot write"):
        write_report([path], tmp_path / "file" / "report.html", None)


def test_best_is_told_from_paper_by_name_and_line(make_run):
    """Also where both are variants of their algorithm: all tasks together, beside a run in sequence."""
    runs, _ = read_runs([
        make_run("a", tasks=3), make_run("b", together=True, steps=1, tasks=3),
        make_run("c", together=True, steps=1, tasks=3, preset="best"),
    ])  # fmt: skip
    lines = figures.resilience_curves(runs).axes[0].get_lines()
    looks = {
        line.get_label(): (line.get_linewidth(), line.get_markerfacecolor(), line.is_dashed())
        for line in lines
        if not line.get_label().startswith("_")
    }
    assert list(looks) == [
        "DGDMN (preset paper)",
        "DGDMN (preset paper, all tasks together)",
        "DGDMN (preset best, all tasks together)",
    ]
    assert len(set(looks.values())) == 3, looks


def test_variants_of_an_algorithm_are_told_apart_by_dash_marker_and_shade(make_run):
    runs, _ = read_runs([
        make_run("a", tasks=3, artefacts="none"),
        make_run("b", tasks=3, artefacts="none", changes={"n_stm": 1}),
        make_run("c", tasks=3, artefacts="none", changes={"n_stm": 5}),
    ])  # fmt: skip
    lines = figures.forgetting_curves(runs).axes[0].get_lines()
    names = ["DGDMN", "DGDMN (n_stm 1)", "DGDMN (n_stm 5)"]
    shown = [line for line in lines if line.get_label() in names]
    assert [line.get_label() for line in shown] == names
    for told in ("_dash_pattern", "_marker", "_color"):
        values = [getattr(line, told) for line in shown]
        looks = {value.get_marker() if told == "_marker" else str(value) for value in values}
        assert len(looks) == 3, (told, looks)


def test_a_long_legend_leaves_the_panels_their_room(make_run):
    """As that of an ablation; matplotlib warns where axes shrink to nothing."""
    ways = [{}, *({"sttm_generator_layers": [size]} for size in range(10, 24))]
    directories = [
        make_run(f"run{i}", tasks=3, artefacts="none", changes=way, preset="best")
        for i, way in enumerate(ways)
    ]
    inches = []
    with style():
        for found in (directories[:1], directories):
            figure = figures.forgetting_curves(read_runs(found)[0])
            figure.draw_without_rendering()
            inches.append(figure.axes[0].get_position().height * figure.get_figheight())
    assert inches[0] > 1.5
    assert inches[1] == pytest.approx(inches[0], rel=0.1), "the figure grows, not the legend at its cost"


def test_the_long_term_memory_alone_stands_beside_the_average(make_run):
    """Between sleeps an average is flattered; an algorithm without a short-term memory has one line."""
    runs, _ = read_runs([
        make_run("a", tasks=4, artefacts="none"),
        make_run("b", tasks=4, artefacts="none", algorithm="nn"),
    ])  # fmt: skip
    lines = {line.get_label(): line for line in figures.forgetting_curves(runs).axes[0].get_lines()}
    assert {"NN", "DGDMN", "DGDMN, LTM alone"} <= lines.keys()
    assert "NN, LTM alone" not in lines
    alone, assisted = (lines[name].get_ydata() for name in ("DGDMN, LTM alone", "DGDMN"))
    assert np.isnan(alone[0])
    assert alone[2] == 0 < assisted[2]
    assert alone[3] == assisted[3]


def test_the_last_task_has_a_point_where_it_has_no_line(make_run):
    runs, _ = read_runs([make_run("a", tasks=3, artefacts="none")])
    lines = figures.accuracy_curves(runs).axes[0].get_lines()
    markers = {
        len(line.get_xdata()): line.get_marker() for line in lines if not line.get_label().startswith("_")
    }
    assert markers == {3: "", 2: "", 1: "o"}


def test_recognition_losses_by_density_may_be_negative(make_run):
    directory = make_run("a", tasks=3, algorithm="dgdmn-recog", artefacts="none")
    runs, _ = read_runs([directory])
    assert figures.recognition_losses(runs).axes[0].get_yscale() == "log"
    events = directory / "events.jsonl"
    events.write_text(events.read_text().replace("[1.0]", "[-0.5]"))
    (axes,) = figures.recognition_losses(read_runs([directory])[0]).axes
    assert axes.get_yscale() == "linear"
    assert axes.get_ylim()[0] < -0.5
