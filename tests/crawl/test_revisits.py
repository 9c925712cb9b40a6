"""Pages that are visited again: conditional requests, 304, changed text, earlier archives."""

from __future__ import annotations

import gzip
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copy
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest

from tests.adapters.rawserver import RawServer, path_of, read_request
from tests.crawl.crawling import Result, assert_clean
from tests.crawl.knownsite import Record, answer, chunked, records
from tests.crawl.revisited import revisit
from tests.crawl.test_replay import OWN_INDEX, PYWB, wayback
from webcrawl.tools.warccheck.check import check
from webcrawl.warc.records import digest

pytestmark = pytest.mark.slow

ETAG, DATE = b'"v1"', b"Sat, 01 Aug 2026 10:00:00 GMT"
VALIDATORS = (b"ETag: " + ETAG, b"Last-Modified: " + DATE)
NOT_MODIFIED = b'HTTP/1.1 304 Not Modified\r\nETag: "v1"\r\nX-Cache: hit\r\n\r\n'
PROFILE = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
TEXT = "".join(
    f"<p>Paragraph {word} tells at length what the pages of this site are about, with enough words"
    f" of its own such as {word * 2} and {word * 3} to be read by people, in the year {{year}}.</p>"
    for word in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota")
)


CHUNKED = b"<html>" + TEXT.format(year=1).encode() + b"<p>in chunks"


def page(text: str = "", *fields: bytes, year: int = 2025, name: str = "") -> bytes:
    body = f"<html><title>{name}</title>{text}{TEXT.format(year=year)}<p>{name}</p>"
    return answer(body.encode(), *fields)


@dataclass
class Site:
    """A server whose answers depend on the visit, 1 or 2, and on the request."""

    pages: dict[str, Callable[[int, bytes], bytes]]
    visit: int = 1
    port: int = 0
    requests: dict[str, list[bytes]] = field(default_factory=dict)

    def serve(self, connection: socket.socket) -> None:
        request = read_request(connection)
        path = path_of(request)
        self.requests.setdefault(path, []).append(request)
        if path == "/":
            links = "".join(f'<a href="{each}">x</a>' for each in self.pages)
            connection.sendall(answer(b"<html>" + links.encode()))
        elif path in self.pages:
            connection.sendall(self.pages[path](self.visit, request))
        else:
            connection.sendall(answer(b"", status=b"404 Not Found"))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def validated(visit: int, request: bytes) -> bytes:
    """An honest server."""
    if b"\r\nIf-None-Match: " + ETAG + b"\r\n" in request:
        return NOT_MODIFIED
    return page("", *VALIDATORS, name="validated")


PAGES: dict[str, Callable[[int, bytes], bytes]] = {
    "/validated": validated,
    "/changed": lambda visit, _: page(
        "<p>This paragraph is new: the harbour was closed on account of a storm from the north, and"
        " all ferries wait. <a href=/fresh>More about the storm</a></p>" * (visit - 1),
        b'ETag: "%d"' % visit,
        name="changed",
    ),
    "/fresh": lambda *_: page(name="fresh"),
    "/counter": lambda visit, _: page(f"<div>Visitor {visit * 917}</div>", year=2020 + visit),
    "/lying": lambda visit, _: page(
        "<p>Quite another story about mountains, rivers and bridges that nobody has told.</p>"
        * (visit - 1),
        *VALIDATORS,
    ),
    "/unasked": lambda visit, _: NOT_MODIFIED if visit == 2 else page("", name="unasked"),
    "/with-body": lambda visit, _: (
        NOT_MODIFIED + b"<html><a href=/evil>no page</a>" * 100
        if visit == 2
        else page("", *VALIDATORS, name="with-body")
    ),
    "/long-tag": lambda *_: page("", b'ETag: "%b"' % (b"a" * 10_000), name="long"),
    "/smuggled": lambda *_: page("", b'ETag: "a\rX-Evil: 1"', name="smuggled"),
    "/moves": lambda visit, _: (
        answer(b"", b"Location: /validated", status=b"302 Found")
        if visit == 2
        else page("", *VALIDATORS, name="moves")
    ),
    "/chunked": lambda *_: chunked(CHUNKED),
    "/redirected": lambda *_: answer(b"", b"Location: /validated", status=b"301 Moved"),
}


@dataclass
class Visited:
    site: Site
    result: Result
    outcomes: dict[str, dict[str, Any]]  # by path

    @property
    def records(self) -> list[Record]:
        (path,) = self.result.warcs
        return records(path)

    def answers(self, path: str) -> Record:
        (found,) = (
            each
            for each in self.records
            if each.type in ("response", "revisit") and each.url == self.site.url + path
        )
        return found

    def item(self, path: str) -> dict[str, Any]:
        lines = (self.result.folder / "items.jsonl").read_text().splitlines()
        (found,) = (item for item in map(json.loads, lines) if item["url"].endswith(path))
        return found  # type: ignore[no-any-return]

    def line(self, path: str) -> dict[str, Any]:
        """Of the crawl log."""
        (log,) = (self.result.folder / "warc").glob("crawl-*.jsonl.gz")
        lines = map(json.loads, gzip.decompress(log.read_bytes()).splitlines())
        (found,) = (each for each in lines if each["url"] == self.site.url + path)
        return found  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Visited, Visited, Visited]]:
    """A first crawl, one that visits its pages again, and one that has its index (DEDUP_INDEX)."""
    folder = tmp_path_factory.mktemp("revisits")
    site = Site(PAGES)
    with RawServer(site.serve) as server:
        site.port = server.port
        first = _visited(site, folder / "first", {})
        site.visit, site.requests = 2, {}
        before = {
            f"{site.url}{path}": _visit(one["visited"], is_conditional=path != "/lying")
            for path, one in first.outcomes.items()
            if one["visited"]
        }
        before[f"{site.url}/smuggled"]["etag"] = '"a"\r\nX-Evil: 1'  # as if it had been stored
        before.pop(f"{site.url}/unasked")
        _wait_for_the_next_second()
        second = _visited(site, folder / "second", before)
        site.visit = 1
        _wait_for_the_next_second()
        third = _visited(
            site, folder / "third", {}, DEDUP_INDEX=_other_digests(folder),
            JOBDIR=folder / "third" / "job",
        )  # fmt: skip
        yield first, second, third


def _wait_for_the_next_second() -> None:
    """An index has whole seconds: a visit in the same second would be in the place of the first."""
    time.sleep(1.0 - time.time() % 1.0 + 0.01)


def _other_digests(folder: Path) -> Path:
    """The index of the first crawl, with the digest of /chunked without framing."""
    (path,) = (folder / "first" / "warc").glob("*.cdxj")
    lines = path.read_text().splitlines(keepends=True)
    for number, line in enumerate(lines):
        if "/chunked " in line:
            lines[number] = re.sub(r"sha1:\w+", digest(CHUNKED), line)
    other = folder / "other.cdxj"
    other.write_text("".join(lines))
    return other


def _visited(site: Site, folder: Path, visits: dict[str, Any], **settings: Any) -> Visited:
    result, outcomes = revisit(folder, f"{site.url}/", visits, **settings)
    assert_clean(result)
    return Visited(
        site, result, {url.removeprefix(site.url): each for url, each in outcomes.items()}
    )


def _visit(visited: dict[str, Any], *, is_conditional: bool) -> dict[str, Any]:
    names = ("etag", "last_modified", "simhash", "captured_at", "payload_digest")
    return {name: visited[name] for name in names} | {"is_conditional": is_conditional}


@pytest.fixture
def first(visits: tuple[Visited, Visited, Visited]) -> Visited:
    return visits[0]


@pytest.fixture
def second(visits: tuple[Visited, Visited, Visited]) -> Visited:
    return visits[1]


@pytest.fixture
def third(visits: tuple[Visited, Visited, Visited]) -> Visited:
    return visits[2]


def test_a_first_visit_notes_what_the_next_one_compares(first: Visited) -> None:
    seen = first.outcomes["/validated"]["visited"]
    assert (seen["etag"], seen["last_modified"]) == (ETAG.decode(), DATE.decode())
    assert seen["payload_digest"] == first.answers("/validated").fields["warc-payload-digest"]
    assert seen["is_unchanged"] is None
    assert first.outcomes["/long-tag"]["visited"]["etag"] == ""
    assert first.outcomes["/smuggled"]["visited"]["etag"] == ""
    assert first.outcomes["/redirected"]["visited"] is None


def test_the_validators_are_sent_behind_the_other_headers(second: Visited) -> None:
    request = second.site.requests["/validated"][0]
    assert request.endswith(
        b'\r\nIf-None-Match: "v1"\r\nIf-Modified-Since: '
        + DATE
        + b"\r\nConnection: keep-alive\r\n\r\n"
    )
    for path in ("/robots.txt", "/lying", "/unasked", "/smuggled", "/long-tag"):
        assert b"\r\nIf-" not in second.site.requests[path][0]
    assert b"Evil" not in second.site.requests["/smuggled"][0]


def test_a_304_is_a_revisit_of_the_page_before(first: Visited, second: Visited) -> None:
    revisit, original = second.answers("/validated"), first.answers("/validated")
    assert revisit.type == "revisit"
    assert revisit.block == NOT_MODIFIED
    assert revisit.fields["warc-profile"] == PROFILE
    assert revisit.fields["warc-refers-to-target-uri"] == original.url
    assert revisit.fields["warc-refers-to-date"] == original.fields["warc-date"]
    assert not {"warc-payload-digest", "warc-truncated"} & revisit.fields.keys()
    beside = [
        each for each in second.records if each.fields.get("warc-concurrent-to") == revisit.id
    ]
    assert [each.type for each in beside] == ["request", "metadata"]
    assert beside[0].block == second.site.requests["/validated"][0]
    assert b"\r\nunchanged: true\r\n" in beside[1].block


def test_a_304_is_an_item_with_its_status_and_no_page(second: Visited) -> None:
    item = second.item("/validated")
    assert (item["status"], item["unchanged"], item["links"]) == (304, True, [])
    assert (item["size_bytes"], item["payload_digest"]) == (0, "")
    line = second.line("/validated")
    assert (line["status"], line["unchanged"]) == (304, True)
    assert second.item("/unasked")["unchanged"] is None
    assert "unchanged" not in second.line("/unasked")


def test_a_304_keeps_the_capture_and_the_hash(first: Visited, second: Visited) -> None:
    before, seen = (each.outcomes["/validated"]["visited"] for each in (first, second))
    assert seen == before | {"is_304": True, "is_unchanged": True, "etag": ETAG.decode()}


def test_a_changed_page_is_archived_and_its_links_are_followed(second: Visited) -> None:
    assert second.answers("/changed").type == "response"
    seen = second.outcomes["/changed"]["visited"]
    assert (seen["is_unchanged"], seen["etag"], seen["is_304"]) == (False, '"2"', False)
    assert second.item("/changed")["unchanged"] is False
    assert "/fresh" in second.outcomes


def test_a_counter_is_no_change(second: Visited) -> None:
    assert second.answers("/counter").type == "response"  # other bytes
    assert second.outcomes["/counter"]["visited"]["is_unchanged"] is True


def test_a_lie_is_seen_by_a_plain_request(second: Visited) -> None:
    seen = second.outcomes["/lying"]["visited"]
    assert (seen["validators_held"], seen["is_unchanged"]) == (True, False)


def test_a_304_that_was_not_asked_for_is_no_revisit(second: Visited) -> None:
    assert second.answers("/unasked").type == "response"
    assert second.outcomes["/unasked"] == {
        "url": f"{second.site.url}/unasked",
        "status": 304,
        "visited": None,
    }


def test_the_body_of_a_304_is_ignored(second: Visited) -> None:
    assert second.answers("/with-body").block == NOT_MODIFIED
    assert "/evil" not in second.outcomes


def test_what_happened_is_counted(second: Visited) -> None:
    counts = second.result.report["counts"]
    # /validated once, although two pages lead there; /moves and /changed are answered otherwise.
    assert counts["conditional/not_modified"] == 2
    again = sum(number for name, number in counts.items() if name.startswith("retried/"))
    assert counts["conditional/asked"] == 4 + again, "on a busy machine one may be asked again"
    assert counts["conditional/unasked"] == 1
    assert counts["conditional/with_body"] == 1
    assert counts["conditional/bad_validator"] == 1


def test_what_an_earlier_archive_has_is_a_revisit_of_it(first: Visited, third: Visited) -> None:
    for path in ("/validated", "/changed", "/smuggled"):
        revisit, original = third.answers(path), first.answers(path)
        assert revisit.type == "revisit", path
        assert revisit.fields["warc-profile"].endswith("identical-payload-digest")
        assert revisit.fields["warc-refers-to-target-uri"] == original.url
        date = re.sub(r"\.\d+", "", original.fields["warc-date"])  # an index has whole seconds
        assert revisit.fields["warc-refers-to-date"] == date
        assert revisit.fields["warc-payload-digest"] == original.fields["warc-payload-digest"]
    assert third.outcomes.keys() == first.outcomes.keys()  # links are followed as ever
    assert third.answers("/chunked").fields["warc-payload-digest"] == digest(CHUNKED)
    assert third.item("/chunked")["payload_digest"] == digest(CHUNKED)
    assert third.result.report["counts"]["dedup/found"] == 12
    assert third.item("/validated")["duplicate_of"] == ""


def test_the_files_are_sound(visits: tuple[Visited, Visited, Visited]) -> None:
    for each in visits:
        (path,) = each.result.warcs
        assert check(path) == []


@pytest.mark.skipif(not (PYWB / "wayback").exists(), reason="`make test` installs pywb")
def test_pywb_replays_all_visits(tmp_path: Path, visits: tuple[Visited, Visited, Visited]) -> None:
    (tmp_path / "warc").mkdir()
    for each in visits:
        for path in (each.result.folder / "warc").glob("*.warc.gz"):
            copy(path, tmp_path / "warc")
            copy(path.with_name(path.name.removesuffix(".warc.gz") + ".cdxj"), tmp_path / "warc")
    (tmp_path / "config.yaml").write_text(OWN_INDEX)
    first, second, third = visits
    bodies = {path: first.answers(path).block.partition(b"\r\n\r\n")[2] for path in first.outcomes}
    bodies["/chunked"] = CHUNKED
    with wayback(tmp_path) as port:
        replayed = [(first, "/validated"), (second, "/validated")]
        for each, path in [*replayed, (third, "/changed"), (third, "/chunked")]:
            date = re.sub(r"\D", "", each.answers(path).fields["warc-date"])[:14]
            url = f"http://127.0.0.1:{port}/test/{date}id_/{each.site.url}{path}"
            with build_opener(ProxyHandler({})).open(url, timeout=30) as reply:
                assert (reply.status, reply.read()) == (200, bodies[path])
