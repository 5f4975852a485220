"""`dgdmn export`: a memory on disk as a model that other programs run."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from dgdmn.cli.memories import MemoryPath, opened
from dgdmn.cli.run import parse
from dgdmn.errors import UsageError
from dgdmn.wording import listed, size


@dataclass(frozen=True)
class Export:
    """Write how a memory predicts as an ONNX model: values in, the probabilities of the sorted classes out.

    Of DGDMN and DGR it is the long-term memory, of the others the network. Values are as `dgdmn predict`
    takes floats: in the range learnt, and in [0, 1] for what came as bytes.
    """

    memory: MemoryPath
    """The memory, a directory."""
    onnx: Path
    """The file to write."""


def main(arguments: list[str], debug: bool = False) -> int:  # noqa: ARG001
    """Parse, export, say what is left out."""
    args = parse(Export, arguments, "dgdmn export")
    from dgdmn.algorithms.generative import GenerativeClassifier
    from dgdmn.algorithms.onnx import onnx_bytes
    from dgdmn.disk import replace

    model, _ = opened(args.memory)
    awake = model.awake_tasks() if isinstance(model, GenerativeClassifier) else ()
    advice = f"`dgdmn sleep {args.memory}` first"
    if isinstance(model, GenerativeClassifier) and not model.consolidated_tasks():
        raise UsageError(f"{args.memory} has not slept yet, so there is nothing to export; {advice}")
    content = onnx_bytes(model)
    replace(args.onnx, content)
    if awake:
        sys.stderr.write(f"dgdmn: still awake, and not in {args.onnx}: {listed(awake)}; {advice}\n")
    shape = ", ".join(("n", *map(str, model.learnt_.shape)))
    classes = listed(model.classes_.tolist())
    sys.stdout.write(f"{args.onnx}: {size(len(content))}; X ({shape}) to the probabilities of {classes}\n")
    return 0
