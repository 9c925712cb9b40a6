"""Crawls on disks of their own: in a mount namespace (Linux), whose processes may mount them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from simweb import Running
from tests.crawl.crawling import Result, crawl

VIEW = ("unshare", "-m") if os.geteuid() == 0 else ("unshare", "-rm")
MAY_MOUNT = (
    shutil.which("unshare")
    and not subprocess.run(
        [*VIEW, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    ).returncode
)
mounts = pytest.mark.skipif(not MAY_MOUNT, reason="this system lets us mount nothing")
# A crawl on a small disk. After it fails: one more with the disk enlarged, whose files are kept.
TWICE = """size=$1; shift; mount -t tmpfs -o size=$size none "$0" && { "$@"
echo "exit code $?" >&2
mount -o remount,size=1g "$0" && "$@"; code=$?; cp -a "$0/." "$0.kept"; exit $code; }"""


def crawl_twice(
    folder: Path, web: Running, setting: str, size: str, **settings: Any
) -> tuple[str, Result]:
    """Crawl with the folder of `setting` on a disk of that size, which is not enough.

    Returns the log of the first run, and the result of the next one, with the archive of both.
    """
    small, kept, warc = folder / "small", folder / "small.kept", folder / "warc"
    small.mkdir()
    warc.mkdir()
    within = (*VIEW, "sh", "-c", TWICE, str(small), size)
    folders = {"JOBDIR": folder / "job", "REPORT_DIR": warc, setting: small}
    result = crawl(folder, web=web, within=within, **folders, **settings)
    first, _, result.log = result.log.partition("exit code 1\n")
    assert "Traceback" not in first, first[-3000:]
    assert "Resumes with" in result.log
    for path in (*kept.glob("*.warc.gz"), *kept.glob("*.cdxj")):
        path.rename(warc / path.name)
    return first, result
