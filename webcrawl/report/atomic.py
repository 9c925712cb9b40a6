"""Replaces a file as a whole.

For small files whose loss in a power failure costs little: nothing is synced. Files that need more
are written where they are owned: `report.series`, `crawllog.files`, `live.access`.
"""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, content: str | bytes) -> None:
    """Replace `path`: a reader sees the old file or the new one. OSError."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        if isinstance(content, str):
            part.write_text(content, encoding="utf-8")
        else:
            part.write_bytes(content)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
