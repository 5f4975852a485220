"""What a run records of its machine."""

import platform

from dgdmn.experiments.machine import machine, processor

CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 207
model name\t: Some Processor
stepping\t: 2

processor\t: 1
cpu family\t: 6
model\t\t: 85
"""


def test_processors_of_one_name_are_told_apart(tmp_path):
    told = tmp_path / "cpuinfo"
    told.write_text(CPUINFO)
    assert processor(told) == "Some Processor, 6-207-2"
    told.write_text("Features : fp asimd\n")
    assert processor(told) == ""


def test_without_such_a_file_the_system_is_asked(tmp_path):
    assert processor(tmp_path / "nothing") == platform.processor()


def test_a_run_records_plain_values():
    found = machine()
    assert found["cores"] >= 1
    assert set(found) == {"system", "cpu", "cores", "processor", "denormals"}
