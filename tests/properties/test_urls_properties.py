"""Properties of the canonical form."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from hypothesis import example, given
from hypothesis import strategies as st

from webcrawl.parse.urls import (
    MAX_LENGTH,
    MAX_LEVEL,
    canonicalize,
    canonicalize_each,
    host_of,
    level_of,
    origin_of,
    target_of,
)

PIECES = st.sampled_from(
    [
        *("%", "%2", "%25", "%2e", "%2E", "%2f", "%41", "%34%31", "%61", "%7e", "%zz"),
        *(".", "..", "/", "//", ";", "?", "&", "=", "#", "@", ":", "^", "|", "\\", "[", "]"),
        *("é", "\t", "\n", "~", "a", "B", "0", "{", "}", "'", '"', "<", ">", "\0", " "),
        *(";jsessionid=1", "phpsessid=1", "sid=0123456789abcdefghijklemopqrstuv", "sess"),
    ]
)
TARGETS = st.lists(PIECES, max_size=12).map("".join)
HOSTS = st.one_of(
    st.sampled_from(
        ["h", "Ex.Example", "u@h", "h:80", "h:8080", "h.", "0x7f.1", "[::1]", "é.example"]
    ),
    st.lists(PIECES, max_size=4).map("".join),
)
URLS = st.builds(
    "{}://{}/{}".format, st.sampled_from(["http", "https", "HTTP", "ftp"]), HOSTS, TARGETS
)


@given(st.one_of(URLS, st.text()))
@example("http://h/%%34%31")
@example("http://h/a/..;jsessionid=1/b")
@example("http://0x7f.1../")
@example("http://%2e;jsessionid=1/")
@example("http://h/%4;sid=1%31")
def test_canonical_of_canonical_is_itself(url: str) -> None:
    form = canonicalize(url)
    if form is not None:
        assert canonicalize(form) == form
        assert canonicalize(form, "https://other.example/a/b") == form


@given(URLS)
def test_a_canonical_url_has_the_form_that_other_modules_expect(url: str) -> None:
    form = canonicalize(url)
    if form is None:
        return
    parts = urlsplit(form)
    assert form.isascii()
    assert form.isprintable()
    assert " " not in form
    assert len(form) <= MAX_LENGTH
    assert parts.scheme in ("http", "https")
    assert "#" not in form
    assert "@" not in parts.netloc
    assert parts.netloc == parts.netloc.lower()
    assert parts.path.startswith("/")
    assert host_of(form)
    assert not re.search(r"/\.\.?(?:/|$)", parts.path)


@given(HOSTS, TARGETS)
@example("h", "a./b.")
@example("u@H.:80", "~-_/0/")
@example("h", "a" * (MAX_LENGTH - len("http://h/")))
@example("h", "a" * (MAX_LENGTH - len("http://h/") + 1))
@example("h", "\t/")
@example("h", "\n\t\\a")
def test_a_path_stands_behind_the_origin_of_its_base(host: str, target: str) -> None:
    """The short way of plain paths, held against the parser.

    Behind a second slash stands a host. Tabs and line breaks between the two are no part of the URL
    (WHATWG URL, 4.4).
    """
    base = canonicalize(f"http://{host}/x/y?z")
    if base is not None and not target.lstrip("\t\n\r").startswith(("/", "\\")):
        path = f"/{target}"
        assert canonicalize(path, base) == canonicalize(origin_of(base) + path)


@given(st.text("ab-._~%2e/", min_size=1).filter(lambda target: target[0] != "/"))
@example("a" * (MAX_LENGTH - len("http://h/x/")))
@example("a" * (MAX_LENGTH - len("http://h/x/") + 1))
def test_a_name_stands_behind_the_folder_of_its_base(target: str) -> None:
    assert canonicalize(target, "http://h/x/y?z") == canonicalize(f"http://h/x/{target}")


@given(URLS)
def test_slices_make_up_the_url(url: str) -> None:
    form = canonicalize(url)
    if form is None:
        return
    assert origin_of(form) + target_of(form) == form
    assert host_of(form) == urlsplit(form).hostname
    words = [word for word in target_of(form).split("?")[0].split("/") if word]
    assert level_of(form) == min(MAX_LEVEL, 1 + len(words))


@given(st.lists(st.one_of(URLS, TARGETS)))
def test_canonicalizing_many_equals_one_by_one(hrefs: list[str]) -> None:
    base = "http://base.example/a/b?c"
    one_by_one = [form for href in hrefs if (form := canonicalize(href, base))]
    assert canonicalize_each(hrefs, base) == (list(dict.fromkeys(one_by_one)), len(one_by_one))


@given(TARGETS, st.text("abXY019-._~", min_size=1, max_size=8))
def test_an_escaped_unreserved_character_is_that_character(target: str, word: str) -> None:
    """RFC 3986, 6.2.2.2."""
    escaped = "".join(f"%{ord(character):02x}" for character in word)
    assert canonicalize(f"http://h/x{escaped}x/{target}") == canonicalize(
        f"http://h/x{word}x/{target}"
    )
