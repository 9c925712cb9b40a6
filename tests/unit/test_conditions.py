"""Validators: which of a server's are kept, and what is sent."""

from __future__ import annotations

from tests.cases import each_of
from webcrawl.fetch.conditions import VALIDATOR_MAX, Validators, are_conditional

DATE = "Sat, 01 Aug 2026 10:00:00 GMT"


@each_of("etag", ['"v1"', 'W/"v1"', '""', '"a,b"', "5f3-61b", '"' + "a" * 62 + '"'])
def test_an_entity_tag_is_kept_as_sent(etag: str) -> None:
    assert Validators.of([(b"etag", etag.encode())]) == (etag, "")
    assert Validators(etag).conditions() == [(b"If-None-Match", etag.encode())]


@each_of(
    "etag",
    [
        *("", "*", '"a', '"a", "b"', "a, b", '"a"b"', '"a\r\nX: 1"', '"a\rX: 1"', '"\0"', '"a b"'),
        *('"\xe9"', "w/x*", '"' + "a" * (VALIDATOR_MAX - 1) + '"', "\u2028"),
    ],
)
def test_another_text_is_no_entity_tag(etag: str) -> None:
    assert Validators.of([(b"etag", etag.encode("utf-8"))]).etag == ""
    assert Validators(etag).conditions() == []  # also not if it was stored


@each_of(
    ("date", "kept"),
    [
        (DATE, True),
        (DATE.replace("GMT", "UTC"), False),
        ("Saturday, 01-Aug-26 10:00:00 GMT", False),
        (DATE + "\r\nX-Evil: 1", False),
        ("1970", False),
        ("Sat, ٠١ Aug ٢٠٢٦ 10:00:00 GMT", False),
    ],
)
def test_a_date_is_kept_in_its_usual_form(date: str, kept: bool) -> None:
    assert Validators("", date).checked().last_modified == (date if kept else "")


def test_both_conditions_are_sent() -> None:
    headers = [(b"Server", b"x"), (b"last-modified", DATE.encode()), (b"etag", b'"1"')]
    validators = Validators.of(headers)
    assert validators.conditions() == [
        (b"If-None-Match", b'"1"'),
        (b"If-Modified-Since", DATE.encode()),
    ]
    assert are_conditional(validators.conditions())
    assert not are_conditional([(b"Accept", b"*/*")])
    assert are_conditional([(b"rANGE", b"bytes=0-1")])


def test_a_repeated_header_is_no_validator() -> None:
    assert Validators.of([(b"etag", b'"1"'), (b"etag", b'"2"')]).etag == ""
    assert Validators.of([(b"etag", b'"1"'), (b"etag", b'"1"')]).etag == '"1"'


@each_of(
    ("before", "now", "held"),
    [
        (Validators('"1"'), Validators('W/"1"'), True),
        (Validators('"1"', DATE), Validators('"1"'), True),
        (Validators('"1"'), Validators(), False),
        (Validators("", DATE), Validators('"1"', DATE), True),
        (Validators("", DATE), Validators('"1"', DATE.replace("2026", "2027")), False),
    ],
)
def test_validators_hold(before: Validators, now: Validators, held: bool) -> None:
    assert before.held(now) is held
