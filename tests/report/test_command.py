"""`dgdmn report`: what it writes, what it says, what it refuses."""

import pytest

from dgdmn.cli.report import main
from dgdmn.errors import UsageError


def test_it_writes_the_page_and_its_figures_and_says_so(make_run, tmp_path, capsys):
    make_run("a", algorithm="nn")
    (tmp_path / "runs" / "empty").mkdir()
    out = tmp_path / "my.html"
    assert main([str(tmp_path / "runs"), "--out", str(out)]) == 0
    files = list((tmp_path / "my-figures").iterdir())
    assert (
        capsys.readouterr().out
        == f"{out}: 1 run, 1 problem\n{tmp_path / 'my-figures'}: {len(files)} figure files\n"
    )
    assert {path.suffix for path in files} == {".svg", ".pdf"}
    assert "1 directory could not be read" in out.read_text(encoding="utf-8")


def test_without_figures(make_run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([str(make_run("a")), str(make_run("b")), "--no-figures"]) == 0
    assert capsys.readouterr().out == "report.html: 2 runs\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "runs"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["missing"], "missing does not exist"),
        (["empty"], "no run to report on (empty: the directory is not a run directory"),
        ([], "no run to report on"),
        (["empty", "--figures", "x", "--no-figures"], "exclude each other"),
        (["empty", "--fig"], "dgdmn report --help"),
    ],
    ids=["missing", "empty", "nothing", "both", "typo"],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, words, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError) as refused:
        main(words)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "report.html").exists()
