"""The verbs of the command line, their arguments and their help, as data. `options.Verb` has the format."""

from __future__ import annotations

from dgdmn.cli.options import DEFAULT_ALGORITHM, Verb
from dgdmn.config import DEFAULT_PRESET, PRESETS
from dgdmn.config.registry import STREAMS

DATASETS = list(dict.fromkeys(info.dataset for info in STREAMS.values() if info.dataset))
_OFFLINE = "|".join(info.name for info in STREAMS.values() if info.dataset is None)
_PRESETS = f"{', '.join(PRESETS)} [{DEFAULT_PRESET}]"
_COMMON = ("n_stm", "n_max", "kappa", "samples_per_task")
_RUNS = "RUN PATH+              run directories, or directories of them"
_JOBS = "--jobs N=0             runs at a time; 0: as many as there are cores"
_THREADS = "--threads N=0          torch threads; 0: OMP_NUM_THREADS, or 1 if it is not set"
_LABEL = "--label NAME           csv column or npz array of the labels [label, y or labels]"
_CLASS = "~--algorithm NAME      package.module:Class that created the memory"
_MEMORY = "MEMORY PATH            directory of the memory"
_MEMORY_AND_DATA = f"""{_MEMORY}
    DATA PATH              .npz, .npy or .csv file, or a folder of images"""

VERBS = {
    "run": Verb(
        "run",
        f"""learn a stream of tasks, test on all of them after each one, record everything
        STREAM NAME            {", ".join(STREAMS)}
        --algorithm NAME+={DEFAULT_ALGORITHM}   one or more, also as nn:paper or package.module:Class
        --preset NAME          for algorithms that name none: {_PRESETS}
        --seed N+=0            one or more; each gives a run
        --out PATH=runs        parent directory of the runs
        --evaluate-on test|validation=test  rows to test on; validation is a tenth of the training rows
        {_JOBS}
        {_THREADS}
        --show-config          print what would run as TOML, and stop
        ~--revise N>0*         tasks, counted from 1, to learn again at the end (appendix A)
        ~--together            learn all tasks at once as one: the paper's joint training
        ~--device NAME=cpu     cpu, or cuda if there is one
        ~--fallback {_OFFLINE}|none=none  stream to use if the data is unavailable""",
        _COMMON,
    ),
    "resume": Verb(
        "run",
        f"""continue interrupted runs, to the same bits
        {_RUNS}
        {_JOBS}""",
    ),
    "report": Verb(
        "report",
        f"""write a page about runs, and its figures as SVG and PDF files
        {_RUNS}
        --out PATH=report.html  the page, one file
        --figures PATH         directory of the figures [beside the page]
        --no-figures           write the page only""",
    ),
    "watch": Verb(
        "report",
        f"""follow runs in the browser
        {_RUNS}
        --port N=8765          0: any free port
        The page is on 127.0.0.1. Ctrl-C stops the page, not the runs.""",
    ),
    "learn": Verb(
        "memory",
        f"""teach a memory on disk one more task of your own data
        {_MEMORY_AND_DATA}
        --task NAME            name of the task; left out, DGDMN recognizes a task it knows
        {_LABEL}
        --algorithm NAME       `dgdmn algorithms` lists them [{DEFAULT_ALGORITHM}]
        --preset NAME          also for a stream, as deep/hindi: {_PRESETS}
        --seed N               seed of all random numbers [0]
        --value-range LOW,HIGH  range of the values to come [that of the first task]
        {_THREADS}
        Rows with a `task` column are learned task by task. After a crash the memory is as it was
        before or after a task. Algorithm, preset, seed, value range and hyper-parameters are chosen
        when the memory is created.""",
        ("n_stm", "n_max", "kappa", "learner_layers", "min_steps"),
    ),
    "predict": Verb(
        "memory",
        f"""predict labels with a memory on disk
        {_MEMORY_AND_DATA}
        --out PATH             csv file to write [standard output]
        --task NAME            the task of all rows: the memory that holds it answers
        {_LABEL}
        {_THREADS}
        {_CLASS}
        Writes csv: row, label, probabilities, the memory that answered, and whether it knows the row
        if recognition chose it. Labels in the file give the accuracy.""",
    ),
    "inspect": Verb(
        "memory",
        f"""show what a memory on disk knows, and what its next task needs
        {_MEMORY}
        --json                 as JSON
        --samples N=0          rows of the next task; 0: the mean of the tasks so far
        {_CLASS}""",
    ),
    "sleep": Verb(
        "memory",
        f"""consolidate what a memory on disk learned last
        {_MEMORY}
        {_THREADS}
        {_CLASS}""",
    ),
    "dream": Verb(
        "memory",
        f"""generate samples from the long-term memory of a memory on disk
        {_MEMORY}
        --out PATH=dreams.png  .png for images, .csv, or .npz with x and y
        --n N>0=64             number of samples
        --seed N=0             another seed gives other samples
        {_CLASS}""",
    ),
    "export": Verb(
        "memory",
        f"""write a memory on disk as an ONNX model
        {_MEMORY}
        --onnx PATH=memory.onnx  file to write
        {_CLASS}
        The model maps values to the probabilities of the sorted classes. DGDMN and DGR export the
        long-term memory, others the network. Bytes become values in [0, 1].""",
    ),
    "plan": Verb(
        "info",
        f"""count the samples, steps and bytes that learning will need
        SUBJECT NAME           a stream, or the directory of a memory
        --algorithm NAME       for a stream [{DEFAULT_ALGORITHM}]
        --preset NAME          for a stream: {_PRESETS}
        --tasks N=0            for a memory: tasks to come; 0: until it sleeps
        --samples N=0          for a memory: rows of each task; 0: the mean so far
        --last N>0=10          show options to recall this many recent tasks (appendix B)
        Nothing is trained. The streams are {", ".join(STREAMS)}.""",
        _COMMON,
    ),
    "data": Verb(
        "data",
        f"""locate, fetch and verify the datasets
        ACTION where|fetch|verify  where, fetch or verify
        NAME NAME*             {", ".join(DATASETS)}, or streams; left out, all of them
        `fetch` downloads missing files to the cache. Put files that you have into the cache, or into
        a directory that the variable DGDMN_DATA names.""",
    ),
    "algorithms": Verb("info", "list the algorithms"),
    "doctor": Verb("info", "show versions, threads, memory and the data found"),
}
