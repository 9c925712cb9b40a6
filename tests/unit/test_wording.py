"""Text for people."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import each_of
from webcrawl.base.wording import counted, printable, size_text


@given(st.text())
def test_any_text_becomes_one_printable_line(text: str) -> None:
    assert printable(text).isprintable()


@each_of(
    ("text", "shown"),
    [
        ("praia é", "praia é"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\r\nb", "a\\r\\nb"),
        ("\u202egpj", "\\u202egpj"),
    ],
)
def test_what_a_terminal_obeys_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_numbers_with_their_nouns() -> None:
    shown = [counted(1, "seed"), counted(1000, "seed"), counted(0, "entry", "entries")]
    assert shown == ["1 seed", "1,000 seeds", "0 entries"]


def test_sizes_have_three_digits() -> None:
    assert [size_text(n) for n in (0, 999, 1000, 999_499, 999_500, 1.5e9, 2e15)] == [
        *("0 B", "999 B", "1 kB", "999 kB", "1 MB", "1.5 GB", "2,000 TB"),
    ]
