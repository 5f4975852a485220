"""The verbs of the command line and their arguments, as data."""

from __future__ import annotations

from pathlib import Path

from dgdmn.cli.options import DEFAULT_ALGORITHM, Argument, Verb
from dgdmn.config import DEFAULT_PRESET, PRESETS
from dgdmn.config.registry import STREAMS

DATASETS = list(dict.fromkeys(info.dataset for info in STREAMS.values() if info.dataset))
_OFFLINE = "|".join(info.name for info in STREAMS.values() if info.dataset is None)
_PRESETS = f"{', '.join(PRESETS)} [{DEFAULT_PRESET}]"
_COMMON = ("n_stm", "n_max", "kappa", "samples_per_task")

_RUNS: Argument = ("run", "PATH+", "run directories, or directories of them")
_JOBS: Argument = ("--jobs", "N", "runs at a time; 0: as many as there are cores", 0)
_THREADS: Argument = (
    "--threads",
    "N",
    "torch threads; 0: OMP_NUM_THREADS, or 1 if it is not set",
    0,
)
_MEMORY: Argument = ("memory", "PATH", "directory of the memory")
_DATA: Argument = ("data", "PATH", ".npz, .npy or .csv file, or a folder of images")
_LABEL: Argument = ("--label", "NAME", "csv column or npz array of the labels [label, y or labels]")
_CLASS: Argument = ("--algorithm", "NAME", "package.module:Class that created the memory")

VERBS = {
    "run": Verb(
        "run",
        "learn a stream of tasks, test on all of them after each one, record everything",
        [
            ("stream", "NAME", ", ".join(STREAMS)),
            (
                "--algorithm",
                "NAME+",
                "also as nn:paper or package.module:Class",
                [DEFAULT_ALGORITHM],
            ),
            ("--preset", "NAME", f"of algorithms without their own: {_PRESETS}"),
            ("--seed", "N+", "one run for each", [0]),
            ("--out", "PATH", "parent directory of the runs", Path("runs")),
            (
                "--evaluate-on",
                "test|validation",
                "validation: a tenth of the training rows",
                "test",
            ),
            _JOBS,
            _THREADS,
            ("--show-config", "", "print what would run as TOML, and stop"),
        ],
        rare=[
            (
                "--revise",
                "N>0*",
                "tasks, counted from 1, to learn again at the end (appendix A)",
                [],
            ),
            ("--together", "", "learn all tasks at once as one: the paper's joint training"),
            ("--device", "NAME", "cpu, or cuda if there is one", "cpu"),
            ("--fallback", f"{_OFFLINE}|none", "stream to use if the data is unavailable", "none"),
        ],
        fields=_COMMON,
    ),
    "resume": Verb("run", "continue interrupted runs, to the same bits", [_RUNS, _JOBS]),
    "report": Verb(
        "report",
        "write a page about runs, and its figures as SVG and PDF files",
        [
            _RUNS,
            ("--out", "PATH", "the page, one file", Path("report.html")),
            ("--figures", "PATH", "directory of the figures [beside the page]"),
            ("--no-figures", "", "write the page only"),
        ],
    ),
    "watch": Verb(
        "report",
        "follow runs in the browser",
        [_RUNS, ("--port", "N", "0: any free port", 8765)],
        "The page is on 127.0.0.1. Ctrl-C stops the page, not the runs.",
    ),
    "learn": Verb(
        "memory",
        "teach a memory on disk one more task of your own data",
        [
            _MEMORY,
            _DATA,
            ("--task", "NAME", "name of the task; left out, DGDMN recognizes a task it knows"),
            _LABEL,
            ("--algorithm", "NAME", f"`dgdmn algorithms` lists them [{DEFAULT_ALGORITHM}]"),
            ("--preset", "NAME", f"also for a stream, as deep/hindi: {_PRESETS}"),
            ("--seed", "N", "makes learning repeatable [0]"),
            ("--value-range", "LOW HIGH", "of values to come [that of the first task]"),
            _THREADS,
        ],
        "Rows with a `task` column are learned task by task. After a crash the memory is as it was before "
        "or after a task. Algorithm, preset, seed, value range and hyper-parameters are chosen when the "
        "memory is created.",
        fields=("n_stm", "n_max", "kappa", "learner_layers", "min_steps"),
    ),
    "predict": Verb(
        "memory",
        "predict labels with a memory on disk",
        [
            _MEMORY,
            _DATA,
            ("--out", "PATH", "csv file to write [standard output]"),
            ("--task", "NAME", "the task of all rows: the memory that holds it answers"),
            _LABEL,
            _THREADS,
        ],
        "Writes csv: row, label, probabilities, the memory that answered, and whether it knows the row if "
        "recognition chose it. Labels in the file give the accuracy.",
        [_CLASS],
    ),
    "inspect": Verb(
        "memory",
        "show what a memory on disk knows, and what its next task needs",
        [
            _MEMORY,
            ("--json", "", "as JSON"),
            ("--samples", "N", "rows of the next task; 0: the mean of the tasks so far", 0),
        ],
        rare=[_CLASS, _THREADS],
    ),
    "sleep": Verb(
        "memory", "consolidate what a memory learned last", [_MEMORY, _THREADS], rare=[_CLASS]
    ),
    "dream": Verb(
        "memory",
        "generate samples from the long-term memory of a memory on disk",
        [
            _MEMORY,
            ("--out", "PATH", ".png for images, .csv, or .npz with x and y", Path("dreams.png")),
            ("--n", "N>0", "number of samples", 64),
            ("--seed", "N", "another seed gives other samples", 0),
        ],
        rare=[_CLASS, _THREADS],
    ),
    "export": Verb(
        "memory",
        "write a memory on disk as an ONNX model",
        [_MEMORY, ("--onnx", "PATH", "file to write", Path("memory.onnx"))],
        "The model maps values to the probabilities of the sorted classes. DGDMN and DGR export the "
        "long-term memory, others the network. Bytes become values in [0, 1].",
        [_CLASS, _THREADS],
    ),
    "plan": Verb(
        "info",
        "count the samples, steps and bytes that learning will need",
        [
            ("subject", "NAME", "a stream, or the directory of a memory"),
            ("--algorithm", "NAME", f"for a stream [{DEFAULT_ALGORITHM}]"),
            ("--preset", "NAME", f"for a stream: {_PRESETS}"),
            ("--tasks", "N", "for a memory: tasks to come; 0: until it sleeps", 0),
            ("--samples", "N", "for a memory: rows of each task; 0: the mean so far", 0),
            ("--last", "N>0", "show options to recall this many recent tasks (appendix B)", 10),
        ],
        f"Nothing is trained. The streams are {', '.join(STREAMS)}.",
        fields=_COMMON,
    ),
    "data": Verb(
        "data",
        "locate, fetch and verify the datasets",
        [
            ("action", "where|fetch|verify", "where, fetch or verify"),
            ("name", "NAME*", f"{', '.join(DATASETS)}, or streams; left out, all of them"),
        ],
        "`fetch` downloads missing files to the cache. Put files that you have into the cache, or into a "
        "directory that the variable DGDMN_DATA names.",
    ),
    "algorithms": Verb("info", "list the algorithms"),
    "doctor": Verb("info", "show versions, threads, memory and the data found"),
}
