"""Sentences as numbers: mean vectors of their tokens, with the weights that the package wordllama ships.

Only the two files are read. Importing wordllama could download missing files.
"""

import hashlib
import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdmn.core.errors import UsageError

TEXT_COLUMNS = 256
"""Length of a sentence vector."""
MAX_CHARACTERS = 100_000
"""Longer texts are cut to this length."""
BATCH = 256
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
WEIGHTS = "weights/l2_supercat_256.safetensors"
FILES = {
    TOKENIZER: "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
    WEIGHTS: "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
}
"""Files of wordllama 0.4.0 and their SHA-256: with other weights a saved memory would see different features."""


def embed_texts(texts: Sequence[str]) -> NDArray[np.float64]:
    """A unit vector for each text, shape (n, TEXT_COLUMNS); 0 for one without tokens."""
    tokenizer, weights = _model()
    found = np.zeros((len(texts), TEXT_COLUMNS))
    for at in range(0, len(texts), BATCH):
        batch = [text[:MAX_CHARACTERS] for text in texts[at : at + BATCH]]
        encoded = tokenizer.encode_batch(batch, add_special_tokens=False)
        for row, one in enumerate(encoded, start=at):
            if one.ids:
                vectors = weights[np.minimum(one.ids, len(weights) - 1)]
                mean = vectors.astype(np.float64).mean(axis=0)
                found[row] = mean / max(float(np.linalg.norm(mean)), 1e-12)
    return found


@cache
def _model() -> tuple[Any, NDArray[Any]]:
    """The tokenizer and the vector of each token."""
    spec = importlib.util.find_spec("wordllama")
    places = list(spec.submodule_search_locations or ()) if spec else []
    files = [Path(places[0]) / name for name in FILES] if places else []
    if not files or not all(file.is_file() for file in files):
        raise UsageError("text columns need the package wordllama; run: pip install 'dgdmn[text]'")
    for file, expected in zip(files, FILES.values(), strict=True):
        if hashlib.sha256(file.read_bytes()).hexdigest() != expected:
            advice = "run: pip install 'dgdmn[text]'"
            raise UsageError(f"{file} is not that of wordllama 0.4.0; {advice}")
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer  # wordllama depends on it

    tokenizer = Tokenizer.from_file(str(files[0]))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer, load_file(files[1])["embedding.weight"]
