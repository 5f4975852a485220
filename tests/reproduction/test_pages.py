"""The committed pages follow from the committed results, and nothing that differs is left unexplained."""

import re
import shutil

import jinja2
import pytest

from dgdmn.report.sections.configuration import run_command
from reproduction import tables
from reproduction.page import Renderer, render_pages
from reproduction.results import Results
from reproduction.targets import TARGETS, parse_run


def test_committed_pages_follow_from_the_results(results, root):
    """`python -m reproduction --draw-only` writes them."""
    pages = render_pages(results, root / "results")
    names = {path.relative_to(root).as_posix() for path in pages}
    assert names >= {"REPRODUCIBILITY.md", "README.md", "results/runs.md", "results/deep.md"}
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, path
    assert len(pages[root / "REPRODUCIBILITY.md"].encode()) <= 25_000


def test_links_of_the_pages_lead_somewhere(results, root):
    for path, text in render_pages(results, root / "results").items():
        for link in re.findall(r"\]\(([^)#]+)", text):
            assert "://" in link or (path.parent / link).exists(), (path.name, link)


def test_every_number_that_differs_is_explained(results, root):
    notes = {
        metric: (root / f"results/notes/table-{metric}.md").read_text() for metric in ("acc", "bwt")
    }
    found = tables.verdicts(results, TARGETS["table-acc"].runs)
    assert len(found) == 48
    for (metric, name), verdict in found.items():
        assert ("matches" in verdict) != (f"**{name}**" in notes[metric]), (metric, name, verdict)


def test_verdicts_have_two_sides(results, root):
    found = tables.verdicts(results, TARGETS["table-acc"].runs)
    assert found["acc", "DGR on Digits"] == "higher", ".706 is not the paper's .596"
    assert found["acc", "EWC on Permnist"] == "lower"
    assert found["acc", "DGDMN on Digits"] == "matches"
    text = "Of the 48 numbers in the paper's two tables, 35 match, 8 are lower, 5 are higher."
    assert text in render_pages(results, root / "results")[root / "REPRODUCIBILITY.md"]


def test_every_note_belongs_to_a_target_and_has_no_missing_run(results, root):
    renderer = Renderer(results, root / "results")
    for path in (root / "results/notes").glob("*.md"):
        assert path.stem in TARGETS or path.stem == "deviations"
        text = renderer.render(path.read_text(encoding="utf-8"))
        assert "{{" not in text
        assert "not run yet" not in text


def test_functions_of_templates(results, tmp_path):
    render = Renderer(results, tmp_path).render
    assert render('{{ acc("digits dgdmn") }}') == ".828 ± .009\n"
    assert (
        render('{{ format_with_verdict("acc", "digits dgr") }}')
        == ".706 ± .021 (.596) **higher**\n"
    )
    assert render('{{ with_paper("acc", "digits dgr") }}') == ".706 ± .021 (.596)\n"
    assert "(" not in render('{{ format_with_verdict("acc", "digits dgdmn deep") }}'), (
        "not the paper's settings"
    )
    assert render('{{ acc("digits dgdmn n_stm=7") }}') == "not run yet\n"
    times = render('{{ seconds("tdigits dgr", "tdigits dgdmn") }}')
    assert times == "7,228 s, 1,784 s (processor)\n"
    with pytest.raises(jinja2.UndefinedError, match="'nonsense' is undefined"):
        render("{{ nonsense() }}")


def test_without_results_the_pages_say_so(tmp_path):
    pages = render_pages(Results({}), tmp_path / "results")
    page = pages[tmp_path / "REPRODUCIBILITY.md"]
    assert "48 not run yet" in page
    assert "Not drawn yet" in page
    assert "not measured yet" in page
    assert "Where ours differs" not in page, "a note about particular runs needs them"


def test_a_readme_without_a_place_for_results_stays_as_it_is(results, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("mine")
    assert render_pages(results, tmp_path / "results")[readme] == "mine"
    readme.write_text("a\n<!-- results: made -->\nold\n<!-- end of results -->\nb")
    text = render_pages(results, tmp_path / "results")[readme]
    assert text.startswith("a\n<!-- results: made -->\n|")
    assert text.endswith("|\n<!-- end of results -->\nb")
    assert "old" not in text


def test_commands(results):
    def of(text):
        return run_command(results.find(parse_run(text))[0])

    start = "dgdmn run digits --algorithm dgdmn --preset"
    assert of("digits dgdmn deep code_buffer=false") == f"{start} deep --seed 0 --no-code-buffer"
    assert of("digits dgdmn deep sttm_generator_layers=128x64").endswith(
        "--sttm-generator-layers 128 64"
    )
    assert "--revise 1 6" in of("permnist ewc revise=1x6")
    assert "--together" in of("digits dgr together")


def test_committed_results_are_small_and_name_no_path(root, tmp_path):
    files = [path for path in (root / "results").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".json", ".csv", ".svg", ".md"}
    assert sum(path.stat().st_size for path in files) < 20_000_000
    places = ("/tmp", "/home", "/root", "/work")
    for path in files:
        if path.suffix in (".json", ".md"):
            assert not any(place in path.read_text(encoding="utf-8") for place in places), path


def test_figures_are_drawn_from_results_alone_and_the_same_each_time(results, root, tmp_path):
    from dgdmn.report.charts import save_figure
    from reproduction import figures

    target = TARGETS["ablation-n-stm"]
    drawn = []
    for name in ("one", "two"):
        request = figures.Request(target.runs, results, Results({}))
        ((suffix, figure),) = getattr(figures, target.figures)(request)
        drawn.append(save_figure(figure, tmp_path / name, ("svg",))[0].read_bytes())
        assert suffix == ""
    assert drawn[0] == drawn[1]
    shutil.copytree(root / "results/figures", tmp_path / "figures")
    linked = Renderer(results, tmp_path).figures(target.name)
    assert linked == f"![{target.name}]({tmp_path.name}/figures/{target.name}.svg)"
