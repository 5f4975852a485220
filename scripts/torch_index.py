"""Print the pip option that finds torch without CUDA, where it is wanted and can be had within seconds."""

import shutil
import sys
import urllib.request


def main(index: str) -> str:
    """The option, or nothing: on macOS (no CUDA builds), beside a GPU, or if the index does not answer."""
    if not sys.platform.startswith("linux") or shutil.which("nvidia-smi"):
        return ""
    try:
        with urllib.request.urlopen(f"{index}/torch/", timeout=3):
            return f"--extra-index-url {index}"
    except OSError:
        return ""


if __name__ == "__main__":
    print(main(sys.argv[1]))
