"""pywb replays a crawl's archive over HTTP: a visitor gets the bytes that the server sent, and sees
pages with all that they show.
"""

from __future__ import annotations

import gzip
import re
import socket
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import IncompleteRead
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, ProxyHandler, build_opener

import pytest

from tests.chromium import chromium
from tests.conftest import ROOT
from tests.crawl.crawling import until
from tests.crawl.knownsite import (
    MAX_SIZE,
    ODD,
    OWN,
    PAGE,
    ROBOTS,
    SOUND,
    Site,
    answer,
    crawled,
    records,
    served,
)
from tests.freeport import free_port
from webcrawl.tools.wacz.parts import make_wacz

PYWB = ROOT / ".venv" / "pywb" / "bin"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (PYWB / "wayback").exists(), reason="`make test` installs pywb"),
]

BODIES = {
    "/plain": OWN["plain"],
    "/chunked": OWN["chunked"],
    "/gzip": OWN["gzip"],
    "/both": OWN["both"],
    "/old": OWN["old"],
    "/copy": OWN["plain"],  # one of the two is a revisit
    "/copy-gzip": OWN["plain"],
    "/empty": b"",
    "/caf%C3%A9": PAGE + b"cafe",
    "/cut": PAGE + b"cut",
    "/large": (PAGE + b"large" * MAX_SIZE)[:MAX_SIZE],
    "/robots.txt": ROBOTS,
    "/lf": OWN["odd"],
    "/latin": PAGE + b"latin",
    "/folded": PAGE + b"folded",
    "/no-colon": PAGE + b"no-colon",
    "/interim": PAGE + b"interim",
    "/liar": b"<html>these are no chunks\n" * 200,
}


# A page and what it shows, in each way in which a page of today does.
PAGE_THAT_SHOWS = b"""<!doctype html><title>Shows</title><link rel=stylesheet href=/shown/a.css>
<link rel=icon href=/shown/icon.png><script src=/shown/a.js></script><img src=/shown/plain.png>
<img src=/shown/1x.png srcset="/shown/2x.png 2x"><p>Words</p><b>Words</b>"""
PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
SHOWN = {
    "a.css": (b"text/css", b"@import 'b.css'; p { background: url(p.png) }"),
    "b.css": (b"text/css", b"b { background: url('b.png') }"),
    "a.js": (b"text/javascript", b"document.title = 'It ran'"),
} | dict.fromkeys(
    ("icon.png", "plain.png", "1x.png", "2x.png", "p.png", "b.png"), (b"image/png", PNG)
)


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


class Replay:
    """A pywb that serves one archive."""

    def __init__(
        self, port: int, site: Site, dates: dict[str, str], collection: str = "test"
    ) -> None:
        self._base = f"http://127.0.0.1:{port}/{collection}"
        self._site = site
        self._dates = dates
        self._opener = build_opener(ProxyHandler({}), _NoRedirect)

    def url(self, path: str, modifier: str) -> str:
        return f"{self._base}/{self._dates[path]}{modifier}/{self._site.url}{path}"

    def get(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body as a browser takes it, of the capture of `path`.

        The modifier `id_` requests the original, without pywb's rewriting.
        """
        try:
            reply = self._opener.open(self.url(path, "id_"), timeout=30)
        except HTTPError as error:
            reply = error
        with reply:
            headers = {name.lower(): value for name, value in reply.headers.items()}
            try:
                body: bytes = reply.read()
            except IncompleteRead as error:  # truncated, as the capture is
                body = error.partial
            if headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            return reply.status, headers, body


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Site]:
    """The folder of a crawl, and its site, which is closed: all answers come from the archive."""
    folder = tmp_path_factory.mktemp("own-index")
    with served(SOUND | ODD | {"/shows": answer(PAGE_THAT_SHOWS)}) as site:
        for name, (media_type, body) in SHOWN.items():  # no page links to them
            site.pages[f"/shown/{name}"] = answer(body).replace(b"text/html", media_type)
        assert len(crawled(folder, site, PAGE_REQUISITES=1).warcs) == 1
    return folder, site


# As in docs/output.md: pywb reads our index, and makes none of its own.
OWN_INDEX = """
collections:
  test:
    index_paths: ./warc/
    archive_paths: ./warc/
"""


@pytest.fixture(scope="module")
def replays(archive: tuple[Path, Site]) -> Iterator[dict[str, Replay]]:
    """The archive by its WARC files and their index, and by a WACZ that pywb has taken in."""
    folder, site = archive
    (path,) = (folder / "warc").glob("*.warc.gz")
    (folder / "config.yaml").write_text(OWN_INDEX)
    wacz = folder / "crawl.wacz"
    make_wacz([path], wacz, 0, has_text=False, progress=lambda size_bytes: None)
    for arguments in (["init", "wacz"], ["add", "--unpack-wacz", "wacz", str(wacz)]):
        command = [PYWB / "python", PYWB / "wb-manager", *arguments]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    dates = dates_of(path, site)
    with wayback(folder) as port:
        yield {name: Replay(port, site, dates, name) for name in ("test", "wacz")}
    assert [each.name for each in (folder / "collections").iterdir()] == ["wacz"]


@pytest.fixture(scope="module")
def replay(replays: dict[str, Replay]) -> Replay:
    return replays["test"]


def dates_of(archive: Path, site: Site) -> dict[str, str]:
    """The timestamp (14 digits) of each path's last capture."""
    return {
        record.url.removeprefix(site.url): re.sub(r"\D", "", record.fields["warc-date"])[:14]
        for record in records(archive)
        if record.type in ("response", "revisit")
    }


@contextmanager
def wayback(folder: Path) -> Iterator[int]:
    """Serve the collections of `folder`; yields the port."""
    port = free_port()
    command = [PYWB / "python", PYWB / "wayback", "-b", "127.0.0.1", "-p", str(port)]
    with (folder / "pywb.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        until(lambda: _listens(port) or server.poll() is not None)
        assert server.poll() is None, (folder / "pywb.log").read_text()
        yield port
    finally:
        server.terminate()
        server.wait()


def _listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("collection", ["test", "wacz"])
@pytest.mark.parametrize("path", BODIES)
def test_pywb_replays_through_our_index(
    path: str, collection: str, replays: dict[str, Replay]
) -> None:
    status, headers, body = replays[collection].get(path)
    assert status == 200
    assert body == BODIES[path]
    own = headers.get("x-archive-orig-x-copy", headers.get("x-copy"))
    assert own == ("yes" if path == "/copy" else None)  # a revisit has its own headers


def test_a_redirect_is_replayed(replay: Replay) -> None:
    status, headers, _ = replay.get("/moved")
    assert status == 302
    assert headers["location"].endswith("/plain")


def test_an_error_page_is_replayed(replay: Replay) -> None:
    status, _, body = replay.get("/missing")
    assert status == 404
    assert body == b"<html>no such page"


def test_a_browser_gets_all_that_a_page_shows(replay: Replay) -> None:
    statuses: dict[str, int] = {}
    failed: list[str] = []
    with chromium() as browser, browser.new_page(device_scale_factor=2) as page:
        page.on("response", lambda reply: statuses.update({reply.url: reply.status}))
        page.on("requestfailed", lambda request: failed.append(request.url))
        page.goto(replay.url("/shows", ""))
        frame = page.wait_for_selector("#replay_iframe").content_frame()
        frame.wait_for_url("**/shows")  # the frame is there before it has a page
        frame.wait_for_load_state("networkidle")
        assert frame.evaluate("Promise.all(Array.from(document.images, i => i.decode()))")
        assert frame.title() == "It ran"
        # A browser without a window does not ask for it.
        assert frame.evaluate("fetch(document.querySelector('[rel=icon]').href).then(r => r.ok)")
    assert not failed
    assert not {url: status for url, status in statuses.items() if status != 200}
    shown = {url.rpartition("/")[2] for url in statuses if "/shown/" in url}
    assert shown == SHOWN.keys() - {"1x.png"}
    assert replay.get("/shown/1x.png")[2] == PNG
