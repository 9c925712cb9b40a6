"""The declared language of a page."""

from __future__ import annotations

from tests.cases import each_of
from webcrawl.parse.language import declared_language


@each_of(
    ("html", "lang"),
    [
        (b"<!DOCTYPE html><html lang=pt-BR>", "pt-br"),
        (b'<HTML class="no-js" LANG="en">', "en"),
        (b"<html dir='rtl' lang = 'ar' >", "ar"),
        (b"<html xmlns='http://www.w3.org/1999/xhtml' xml:lang='de' lang='de'>", "de"),
        (b"<html data-lang='xx'>", ""),
        (b"<html hreflang='xx' lang=fr>", "fr"),
        (b"<!-- <html lang=xx> --><html lang=it>", "it"),
        (b"<!--[if lt IE 9]><html lang='a'><![endif]--><!--[if gt IE 8]><!--><html lang=pt>", "pt"),
        (b"<!-- <html lang=xx>", ""),
        (b"<html><body lang=es>", ""),
        (b"<html lang=''>", ""),
        (b"<html lang=" + b"x" * 100 + b">", "x" * 35),
        (b"<html lang=\xff>", "\ufffd"),
        (b" " * 5000 + b"<html lang=en>", ""),
        (b"", ""),
    ],
)
def test_the_attribute_of_the_first_html_tag(html: bytes, lang: str) -> None:
    assert declared_language(html, "utf-8") == lang


def test_utf_16() -> None:
    assert declared_language("<html lang='pt'>".encode("utf-16-le"), "utf-16le") == "pt"


def alternates(*links: tuple[str, str]) -> bytes:
    tags = (f"<link rel=alternate hreflang={code} href={url}>" for code, url in links)
    return "".join(tags).encode()


OWN = alternates(("x-default", "/a"), ("en", "/en/a"), ("pt-BR", "http://h.test/a"))


@each_of(
    ("html", "header", "lang"),
    [
        (b"<html>", "pt-BR", "pt-br"),
        (b"<html lang=es>", "pt", "es"),
        (b"<html lang=''>", "pt", ""),  # HTML, 3.2.6.1: unknown
        (b"<html>", "pt, en", ""),
        (b"<html>", "Portuguese (Brazil)", ""),
        (OWN, "", "pt-br"),
        (b"<html lang=es>" + OWN, "", "es"),
        (OWN, "es", "es"),
        (OWN, "pt, en", "pt-br"),
        (alternates(("en", "/en/a"), ("pt", "/a?x=1")), "", ""),
        (b"<link rel=next hreflang=pt href=/a>", "", ""),
        (b"<!--" + OWN + b"-->", "", ""),
    ],
)
def test_the_header_and_the_own_alternate_count_where_html_has_no_lang(
    html: bytes, header: str, lang: str
) -> None:
    assert declared_language(html, "utf-8", header, "http://h.test/a") == lang
