"""Tokens of a page, and the pages on which a naive count goes wrong."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import each_of
from webcrawl.tools.words import count_tokens, visible_text

CASES = {
    "words and numbers": ("<p>One, two; 3 and snake_case</p>", 5),
    "inline elements do not end a word": ("<b>w</b>ord <a href=x>an</a>other", 2),
    "blocks end a word": ("<td>a</td><td>b</td><br>c", 3),
    "the title counts": ("<title>Two words</title>", 2),
    "scripts and styles": ("<script>if (a < b) c()</script>x<style>p { color: red }</style>", 1),
    "a script that names its end in a string": ("<script>'<b>' + '</b>'</script>x", 1),
    "comments": ("a <!-- b -- > c --> d", 2),
    "templates, frames": ("<template>a</template><iframe src=x>b</iframe><p>c", 1),
    "a bracket in an attribute": ('<p title="a > b c">d', 1),
    "an unclosed tag": ("a <p title='b c d", 1),
    "a bare <": ("1 < 2", 2),
    "references": ("caf&eacute; &lt;b&gt; a&nbsp;b", 4),
    "letters of other alphabets": ("Привет мир Ελλάδα", 3),
    "marks belong to the word": ("नमस्ते दुनिया", 2),
    "quotation marks and dashes": ("“a”—‘b’…c", 3),
    "noscript is shown": ("<noscript>a b</noscript>", 2),
    "no text": ("<html><body></body></html>", 0),
    "many kinds of separators": ("a" + "a".join(map(chr, range(0x2190, 0x2200))), 112),
}


@each_of(("page", "tokens"), CASES.values(), ids=CASES)
def test_tokens(page: str, tokens: int) -> None:
    assert count_tokens(f'<meta charset="utf-8">{page}'.encode()) == tokens


@each_of("charset", ["windows-1252", "utf-16le", "utf-8"])
def test_the_character_set_is_that_of_the_header(charset: str) -> None:
    page = "<p>ação é—bom</p>".encode(charset)
    assert count_tokens(page, f"text/html; charset={charset}") == 3
    assert "ação" in visible_text(page, f"text/html; charset={charset}")


@given(st.binary() | st.text(alphabet="<>/!-\"'= scriptyle&;#x0").map(str.encode))
def test_no_bytes_raise(page: bytes) -> None:
    assert count_tokens(page) >= 0
