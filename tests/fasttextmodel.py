"""Writes a fastText model of a few words, in the format of fastText's own files (version 12)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

_MAGIC, _VERSION = 793712314, 12
_SOFTMAX, _SUPERVISED = 3, 3
_WORD, _LABEL = 0, 1


def write_model(path: Path, words: Mapping[str, str]) -> Path:
    """A model that knows a language by one word. `words`: by label, without `__label__`."""
    count = len(words)
    options = (count, 5, 1, 1, 0, 1, _SOFTMAX, _SUPERVISED, 0, 0, 0, 100)
    entries = [(word, _WORD) for word in (*words.values(), "</s>")]  # the end of a line
    entries += [(f"__label__{label}", _LABEL) for label in words]
    each = (text.encode() + b"\0" + struct.pack("<qb", 1, kind) for text, kind in entries)
    # The vector of a word is that of its language; a score is near 1.
    vectors = [[9.0 * (n == m) for n in range(count)] for m in range(count)]
    path.write_bytes(
        struct.pack("<2i12id", _MAGIC, _VERSION, *options, 0.0)
        + struct.pack("<3iqq", len(entries), count + 1, count, count, -1)
        + b"".join(each)
        + _matrix([*vectors, [0.0] * count])
        + _matrix(vectors)
    )
    return path


def _matrix(rows: list[list[float]]) -> bytes:
    values = [value for row in rows for value in row]
    return struct.pack(f"<?qq{len(values)}f", False, len(rows), len(rows[0]), *values)
