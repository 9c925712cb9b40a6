"""A replay by pywb, over HTTP: a reader of the archive gets the content that the server sent."""

from __future__ import annotations

import gzip
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.exchanges import EXCHANGES, TEXT, capture, write
from webcrawl.items import Original
from webcrawl.warc.records import payload_digest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# pywb is in an environment of its own (see Makefile), or in the environment of the tests.
BIN = [Path(sys.executable).parent, ROOT / ".venv" / "pywb" / "bin"]

# Without a trailer section: pywb takes it for content.
KINDS = ("plain", "to eof", "chunked", "gzip", "gzip, chunked")
DUPLICATES = ("plain", "chunked", "gzip")


def url_of(name: str) -> str:
    return "http://a.test/" + name.replace(", ", "-").replace(" ", "-")


def command(name: str) -> str:
    found = shutil.which(name, path=":".join(map(str, BIN)))
    if found is None:
        pytest.skip(f"pywb's {name} is not installed")
    return found


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Has pywb serve a collection. The value is the start of a replay's URL."""
    folder = tmp_path_factory.mktemp("pywb")
    captures = []
    for name in KINDS:
        each = replace(EXCHANGES[name], url=url_of(name))
        captures.append(capture(each))
        if name in DUPLICATES:
            original = Original(each.url, each.started_time, payload_digest(each))
            copy = replace(each, url=url_of(f"copy of {name}"))
            captures.append(capture(copy, original))
            for other in DUPLICATES:
                form = replace(EXCHANGES[other], url=url_of(f"{name} sent as {other}"))
                captures.append(capture(form, original))
    cut = replace(EXCHANGES["chunked, cut"], url=url_of("cut"))
    captures.append(capture(cut))
    files = write(folder, captures)
    manage = command("wb-manager")
    for arguments in (["init", "crawl"], ["add", "crawl", *files]):
        subprocess.run([manage, *arguments], cwd=folder, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [command("wayback"), "--bind", "127.0.0.1", "--port", str(port)],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(port, server)
        yield f"http://127.0.0.1:{port}/crawl/20231114221320id_/"
    finally:
        server.terminate()
        server.wait(10)


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    end_at = time.monotonic() + 60
    while time.monotonic() < end_at and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("pywb did not start")


def get(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=30) as response:
        body: bytes = response.read()
        if response.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        return body


@pytest.mark.parametrize("name", KINDS)
def test_a_page_is_replayed(replay: str, name: str) -> None:
    assert get(replay + url_of(name)) == TEXT


@pytest.mark.parametrize("name", DUPLICATES)
def test_a_revisit_is_replayed_with_the_body_of_its_original(replay: str, name: str) -> None:
    assert get(replay + url_of(f"copy of {name}")) == TEXT


@pytest.mark.parametrize("name", DUPLICATES)
@pytest.mark.parametrize("other", DUPLICATES)
def test_a_duplicate_sent_in_another_form_is_replayed(replay: str, name: str, other: str) -> None:
    """A revisit would combine the original's bytes with its own headers: garbage in five of nine
    cases. So a duplicate is written as a revisit only if its bytes are the same.
    """
    assert get(replay + url_of(f"{name} sent as {other}")) == TEXT


def test_a_truncated_page_is_replayed_up_to_its_end(replay: str) -> None:
    assert get(replay + url_of("cut")) == TEXT[:195]


def test_a_page_that_was_not_captured_is_absent(replay: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(replay + "http://a.test/never")
