"""The run directory, the contract between training and everything that reads: write it, read it (no torch).

    config.json       everything needed to run it again; config["tasks"] names the columns of the matrices
    events.jsonl      one JSON object a line: kind, time (UTC), seconds since the start, then its own fields
    accuracy.csv      step, after, one column a task: the row recorded when `step` tasks were learnt
    accuracy_ltm.csv  the same for the long-term memory alone; absent where an algorithm has none
    summary.json      the results, written last; "done": true makes the run complete
    artefacts/        compressed npz files
    .lock             held by the process that writes

A cell holds `repr` of the float, so its bits survive; NaN is an empty cell. Of several rows with one step the
last wins: a stream that ends with a half-full short-term memory records its last step before and after the
final sleep. In JSON, NaN and the infinities become null. What a kill left torn (a last csv row without its
line break, a last event that is not whole JSON) is ignored by the reader and removed by `RunWriter.resume`.
"""

from dgdmn.records.layout import MatrixName, run_name
from dgdmn.records.lock import locked
from dgdmn.records.reader import RunRecord
from dgdmn.records.writer import RunWriter

__all__ = ["MatrixName", "RunRecord", "RunWriter", "locked", "run_name"]
