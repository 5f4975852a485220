"""docs/comparison.md shows the runs in results/comparison."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_has_the_numbers_of_the_collected_runs():
    script = runpy.run_path(str(ROOT / "scripts" / "comparison.py"))
    page = script["PAGE"].read_text("utf-8")
    assert page.partition(script["MARK"])[2].strip() == script["table"]().strip()
    readme = script["README"].read_text("utf-8").partition(script["MARK"])[2]
    assert readme.partition(script["END"])[0].strip() == script["small_table"]().strip()


def test_a_method_is_named_by_its_options_but_not_by_its_code_seed():
    script = runpy.run_path(str(ROOT / "scripts" / "comparison.py"))
    names = {
        script["method"](run)
        for run in script["load_runs"](
            path.parent for path in script["RESULTS"].glob("hapt-*/config.json")
        )[0]
    }
    assert {"DGDMN `best`", "SLDA", "Ridge (ridge_units 1390)", "Joint `deep`‡"} <= names
