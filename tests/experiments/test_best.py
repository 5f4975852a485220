"""The preset `best` as it is, on the embedded digits."""

from dgdmn.experiments.run import execute
from dgdmn.experiments.spec import RunSpec
from dgdmn.presets import preset
from dgdmn.records import RunRecord


def test_best_remembers_the_embedded_digits(tmp_path):
    """.952 with this seed where `paper` has .825 and joint training .955: between them lies what its options do."""
    spec = RunSpec("embedded", "dgdmn", "best", preset("best", "embedded"), threads=1)
    execute(spec, tmp_path)
    record = RunRecord.read(tmp_path / spec.name)
    assert record.summary["acc"] > 0.92
    assert record.summary["bwt"] > -0.08
