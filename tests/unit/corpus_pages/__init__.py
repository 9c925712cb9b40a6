"""Documentation pages that were read and marked: README.md has their source and licence."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any


def pages(name: str) -> list[dict[str, Any]]:
    """The pages of `NAME.jsonl.xz`."""
    with lzma.open(Path(__file__).with_name(f"{name}.jsonl.xz"), "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
