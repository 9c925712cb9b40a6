"""The content-seen test: by content, and by the bytes that were sent."""

from __future__ import annotations

from msgspec.structs import replace

from tests.cases import each_of
from webcrawl.frontier.contents import Contents
from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.lease import Failed, Fetched, Outcome, Returned
from webcrawl.warc.records import Original, digest, raw_digest

DONE = Fetched(200, 1.0, 1.0)
PLAIN, CHUNKED, GZIPPED = (
    digest(b"a page"),
    digest(b"6\r\na page\r\n0\r\n\r\n"),
    digest(b"\x1f\x8b"),
)
CONTENT = raw_digest(PLAIN)


class Kept:
    """Contents, and pages that it is given, each with a time of its own."""

    def __init__(self) -> None:
        self.store = Store(None)
        self.contents = Contents(self.store)
        self._time = 0.0

    def ask(self, url: str, sent: str = PLAIN, content: bytes = CONTENT) -> Original | None:
        self._time += 1
        return self.contents.content_seen(content, Original(url, self._time, sent))

    def page(self, url: str, sent: str = PLAIN, content: bytes = CONTENT) -> str:
        """A page from lease to release; the URL of its original, or ""."""
        first = self.ask(url, sent, content)
        self.contents.page_ended(url, DONE)
        return first.url if first else ""

    @property
    def rows(self) -> int:
        self.store._db.commit()
        return sum(1 for _ in self.store._db.rows(rows.CONTENT))


@each_of("at_once", [False, True])
def test_a_page_is_compared_with_all_forms_in_which_its_content_was_sent(at_once: bool) -> None:
    kept, ended = Kept(), []
    forms = [PLAIN, CHUNKED, CHUNKED, GZIPPED, GZIPPED, CHUNKED, PLAIN]
    first = []
    for number, sent in enumerate(forms):
        found = kept.ask(str(number), sent)
        first.append(found and (found.url, found.payload_digest))
        if at_once:
            ended.append(str(number))
        else:
            kept.contents.page_ended(str(number), DONE)
    for url in ended:
        kept.contents.page_ended(url, DONE)
    assert first == [
        *(None, ("0", PLAIN), ("1", CHUNKED), ("0", PLAIN)),
        *(("3", GZIPPED), ("1", CHUNKED), ("0", PLAIN)),
    ]
    assert kept.rows == 3
    assert (kept.contents._fresh, kept.contents._fresh_of) == ({}, {})


def test_the_same_bytes_under_another_label_are_in_the_archive_once() -> None:
    """A file that one server declares as gzipped HTML, another as plain gzip: two contents."""
    packed = raw_digest(GZIPPED)
    for first, second in ((CONTENT, packed), (packed, CONTENT)):
        kept = Kept()
        assert kept.page("first", GZIPPED, first) == ""
        assert kept.page("second", GZIPPED, second) == "first"
        assert kept.page("third", GZIPPED, second) == "first"


@each_of("outcome", [Returned(), Failed("reset", 1.0, 1.0)])
def test_a_page_that_was_not_fetched_is_not_the_first(outcome: Outcome) -> None:
    kept = Kept()
    kept.ask("a", GZIPPED)
    kept.contents.page_ended("a", outcome)
    assert kept.rows == 0
    assert kept.page("b", GZIPPED) == ""
    assert kept.page("c", GZIPPED) == "b"


def test_a_page_that_is_fetched_again_is_its_own_original() -> None:
    kept = Kept()
    original = Original("a", 1.0, PLAIN)
    for _ in range(2):  # a spider may read an answer twice
        assert kept.contents.content_seen(CONTENT, original) is None
    kept.contents.page_ended("a", DONE)
    assert kept.contents.content_seen(CONTENT, Original("a", 2.0, PLAIN)) == original


def test_a_page_without_a_payload_digest_is_compared_by_its_content() -> None:
    kept = Kept()
    assert [kept.page("a", ""), kept.page("b", ""), kept.page("c")] == ["", "a", "a"]
    assert kept.page("d") == "c"


UNARCHIVED = replace(DONE, archived=False)


@each_of("sent", [PLAIN, GZIPPED])
def test_a_page_that_is_not_archived_has_duplicates_and_no_revisits(sent: str) -> None:
    kept = Kept()
    kept.ask("lost", sent)
    kept.contents.page_ended("lost", UNARCHIVED)
    assert kept.rows == 1
    first = kept.ask("first", sent)
    assert first == Original("lost", 1.0, "")
    kept.contents.page_ended("first", DONE)
    assert kept.ask("second", sent) == Original("first", 2.0, sent)
    assert kept.page("another form", CHUNKED) == "lost"


def test_a_page_without_a_payload_digest_may_be_unarchived_too() -> None:
    kept = Kept()
    kept.ask("lost", "")
    kept.contents.page_ended("lost", UNARCHIVED)
    assert kept.page("copy", "") == "lost"


def test_an_unarchived_copy_does_not_change_the_original_of_another_page() -> None:
    """A copy that is not archived, with another Content-Encoding: its original is archived."""
    kept = Kept()
    assert kept.page("archived", GZIPPED) == ""
    other = b"another content"
    assert kept.ask("copy", GZIPPED, other) == Original("archived", 1.0, GZIPPED)
    kept.contents.page_ended("copy", UNARCHIVED)
    assert kept.ask("third", GZIPPED, other) == Original("archived", 1.0, GZIPPED)


def test_a_plain_page_after_compressed_ones_is_found_too() -> None:
    kept = Kept()
    found = [kept.page(str(number), sent) for number, sent in enumerate([GZIPPED, PLAIN, PLAIN])]
    assert found == ["", "0", "1"]


def test_an_unarchived_form_is_stored_when_it_comes_again() -> None:
    kept = Kept()
    assert kept.page("plain") == ""
    kept.ask("lost", GZIPPED)
    kept.contents.page_ended("lost", UNARCHIVED)
    assert kept.rows == 1
    assert kept.page("gzip") == "plain"
    assert kept.page("first", GZIPPED) == "plain"
    assert kept.page("second", GZIPPED) == "first"
