"""What the outcome of a page has for its next visit."""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as replaced

from tests.exchanges import EXCHANGES
from webcrawl.crawl.visits import compare_not_modified, is_unchanged, visited_of
from webcrawl.fetch.conditions import Validators
from webcrawl.fetch.exchange import Exchange
from webcrawl.frontier.lease import Capture, Fetched, Visit, Visited
from webcrawl.hub.wire import Calls, Release, decode, encode
from webcrawl.items import Page
from webcrawl.warc.records import Original, payload_digest

PLAIN = replace(
    EXCHANGES["plain"],
    headers=[(b"etag", b'"2"'), (b"last-modified", b"Sat, 01 Aug 2026 10:00:00 GMT")],
    archived=True,
)
DIGEST = payload_digest(PLAIN)
OLD = Capture(Validators('"1"'), 0xFF00, 1000.5, "sha1:OLD")
LAST = Visit(OLD)


def with_tag(etag: str, *, is_conditional: bool = False) -> Visit:
    return Visit(Capture(Validators(etag)), is_conditional)


def seen_by(
    last: Visit | None, exchange: Exchange = PLAIN, answered: Page | None = None
) -> Visited:
    seen = visited_of(last, exchange, answered or page())
    assert seen is not None
    return seen


def page(exchange: Exchange = PLAIN, simhash: int | None = 0xFF00) -> Page:
    made = Page(exchange.url, exchange.status, payload_digest=DIGEST, truncated=exchange.truncated)
    made.exchange, made.simhash = exchange, simhash
    return made


def test_a_first_visit() -> None:
    validators = Validators('"2"', "Sat, 01 Aug 2026 10:00:00 GMT")
    assert seen_by(None) == Visited(Capture(validators, 0xFF00, PLAIN.started_time, DIGEST))


def test_without_recrawl_and_without_a_page_there_is_nothing() -> None:
    assert visited_of(LAST, PLAIN, page(simhash=None)) is None
    assert visited_of(LAST, PLAIN, None) is None


def test_a_page_that_was_not_archived_has_no_capture() -> None:
    assert seen_by(None, replace(PLAIN, archived=False)).capture.captured_at == 0.0


def test_the_same_bytes_as_an_earlier_capture_of_the_url_refer_to_it() -> None:
    exchange, same = replace(PLAIN, digest=DIGEST), page()
    same.original = Original(PLAIN.url, 77.0, DIGEST)
    assert seen_by(LAST, exchange, same).capture.captured_at == 77.0
    same.original = Original("http://b.test/", 77.0, DIGEST)  # that is a capture of another URL
    assert seen_by(LAST, exchange, same).capture.captured_at == PLAIN.started_time


def test_small_changes_add_up() -> None:
    seen = seen_by(LAST, PLAIN, page(simhash=0xFF01))
    assert (seen.is_unchanged, seen.capture.simhash) == (True, 0xFF00)
    seen = seen_by(LAST, PLAIN, page(simhash=0x00FF))
    assert (seen.is_unchanged, seen.capture.simhash) == (False, 0x00FF)


def test_the_same_bytes_are_no_change_under_a_hash_of_an_earlier_version() -> None:
    last = Visit(replaced(OLD, payload_digest=DIGEST))
    same = page(simhash=0x00FF)
    assert is_unchanged(last, same) is True
    seen = seen_by(last, PLAIN, same)
    assert (seen.is_unchanged, seen.capture.simhash) == (True, 0x00FF), (
        "the next visit compares with this"
    )


def test_a_plain_check_says_whether_the_validators_held() -> None:
    held = [
        visited_of(visit, exchange, page())
        for visit, exchange in (
            (with_tag('"2"'), PLAIN),
            (with_tag('"1"'), PLAIN),
            (Visit(), PLAIN),
            (with_tag('"2"', is_conditional=True), replace(PLAIN, is_conditional=True)),
        )
    ]
    assert [seen and seen.validators_held for seen in held] == [True, False, None, None]


def test_a_page_that_was_cut_is_not_compared_and_has_no_validators() -> None:
    cut = replace(PLAIN, truncated="disconnect")
    seen = seen_by(LAST, cut, page(cut))
    assert (seen.capture.validators, seen.is_unchanged) == (("", ""), None)
    assert is_unchanged(LAST, page(replace(PLAIN, truncated="length"))) is True


def test_a_304_keeps_what_was_known() -> None:
    not_modified = replace(
        EXCHANGES["not modified"], is_conditional=True, headers=[(b"etag", b'"' + b"a" * 9999)]
    )
    made = Page(not_modified.url, 304)
    compare_not_modified(made, not_modified, LAST)
    assert (made.unchanged, made.original) == (
        True,
        Original(not_modified.url, 1000.5, "sha1:OLD"),
    )
    assert visited_of(LAST, not_modified, made) == Visited(OLD, is_unchanged=True, is_304=True)
    newer = replace(not_modified, headers=[(b"etag", b'"2"')])
    assert seen_by(LAST, newer, made).capture == replaced(OLD, validators=Validators('"2"'))


def test_a_hash_of_64_bits_goes_from_process_to_process() -> None:
    outcome = Fetched(200, 1.0, 2.0, visited=Visited(Capture(simhash=(1 << 64) - 1)))
    call = Calls(1, [Release([(1, outcome)], 2.0)], {}, 0.0)
    assert decode(encode(call)) == call
