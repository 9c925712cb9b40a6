"""Archives checked by warcio, FastWARC, Warcat, and our own check; test_cdxj.py has their index."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.exchanges import EXCHANGES, ODD_HEADS, capture, encrypted, exchange, write
from webcrawl.tools.warccheck.check import check
from webcrawl.warc.index import index_path
from webcrawl.warc.records import Capture, Original, payload_digest

PLAIN = EXCHANGES["plain"]
ORIGINAL = Original(PLAIN.url, PLAIN.started_time, payload_digest(PLAIN))
CAPTURES = {name: capture(each) for name, each in EXCHANGES.items()} | {
    "https": capture(encrypted(PLAIN)),
    "without metadata": Capture(PLAIN, payload_digest(PLAIN)),
}
REVISIT = capture(exchange(PLAIN.head, url="http://b.test/copy"), ORIGINAL)
NOT_MODIFIED = capture(
    replace(EXCHANGES["not modified"], is_conditional=True),
    Original(PLAIN.url, PLAIN.started_time, ORIGINAL.payload_digest),
)
ODD = {name: capture(each) for name, each in ODD_HEADS.items()}

JUDGES = {
    "warcio": ["warcio", "check", "--verbose"],
    "FastWARC": ["fastwarc", "check", "--quiet", "--output", "-"],
    "FastWARC, payloads": ["fastwarc", "check", "--quiet", "--verify-payloads", "--output", "-"],
    "Warcat": [sys.executable, "-m", "warcat", "verify"],
}


def judged(judge: str, path: Path) -> str:
    """The output of a judge that finds no fault in the file."""
    name, *arguments = JUDGES[judge]
    program = shutil.which(name, path=Path(sys.executable).parent)
    if program is None or (judge == "Warcat" and not importable("warcat")):
        pytest.skip(f"{judge} is not installed")
    done = subprocess.run(
        [program, *arguments, path], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fail" not in done.stdout.lower()
    return done.stdout


def importable(module: str) -> bool:
    code = f"import {module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.parametrize("judge", JUDGES)
def test_a_file_of_all_kinds_is_accepted(judge: str, tmp_path: Path) -> None:
    """Warcat and FastWARC's --verify-payloads fail any revisit record: they compare its digest,
    which WARC 1.1, 6.7.2 demands to be the original's, with the payload that it does not have. A
    304 has no payload digest, so they accept it. Warcat stops with a traceback at odd heads, in the
    files of any crawler.
    """
    captures = [*CAPTURES.values(), NOT_MODIFIED]
    if judge != "Warcat":
        captures += ODD.values()
        captures += [REVISIT] * (judge != "FastWARC, payloads")
    (path,) = write(tmp_path, captures)
    judged(judge, path)
    assert check(path) == []


def test_a_304_that_was_asked_for_is_not_in_the_index(tmp_path: Path) -> None:
    (path,) = write(tmp_path, [CAPTURES["plain"], NOT_MODIFIED])
    assert index_path(path).read_bytes().count(b"\n") == 1  # pywb would show an empty page


def test_warcio_and_fastwarc_verify_every_payload_that_has_a_digest(tmp_path: Path) -> None:
    (path,) = write(tmp_path, CAPTURES.values())
    with_digest = sum(bool(each.payload_digest) for each in CAPTURES.values())
    assert with_digest == len(CAPTURES) - 1  # all but "long header"
    assert judged("FastWARC, payloads", path).count("PAYLOAD_OK") == with_digest
    assert "not checked" not in judged("warcio", path)


@pytest.mark.parametrize("judge", ["warcio", "FastWARC, payloads", "Warcat"])
def test_a_digest_without_the_framing_fails(judge: str, tmp_path: Path) -> None:
    """The judges do compare: to them, a digest of the content without framing is wrong."""
    each = EXCHANGES["chunked"]
    unframed = payload_digest(EXCHANGES["plain"])
    (path,) = write(tmp_path, [Capture(each, unframed)])
    with pytest.raises(AssertionError):
        judged(judge, path)
    assert check(path) == []  # the standard's own reading (5.9), and jwarc's
