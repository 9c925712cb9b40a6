"""Headers that lead to other pages, also of robots.txt and in answers to HEAD."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crawl.crawling import assert_clean
from tests.crawl.crawllog import log_lines
from tests.crawl.knownsite import answer, crawled, served

pytestmark = pytest.mark.slow


def test_octets_of_a_location_are_unchanged_and_the_headers_refresh_and_language_are_read(
    tmp_path: Path,
) -> None:
    def moved(location: bytes) -> bytes:
        return answer(b"", b"Location: " + location, status=b"302 Found")

    pages = {
        "/robots.txt": moved("/règles".encode()),
        "/r%C3%A8gles": answer(b"User-agent: *\nDisallow: /private\n"),
        "/utf-8": moved("/c/café?é".encode()),
        "/latin-1": moved("/c/café".encode("latin-1")),
        "/nowhere": moved("http://café.invalid:x/".encode()),
        "/c/caf%C3%A9?%C3%A9": answer(b"<p>UTF-8"),
        "/c/caf%E9": answer(b"<p>Latin-1"),
        "/turned": answer(b"", b"Refresh: 0"),
        "/empty": answer(b"", b"Refresh: 5; URL='/a'"),
        "/full": answer(b"<a href=/b>", b"REFRESH: 0;/c"),
        "/nofollow": answer(b"", b"Refresh: 0; url=/d", b"X-Robots-Tag: nofollow"),
    }
    with served(pages) as site:
        portuguese = answer(b"<p>", b"Content-Language: pt-BR")
        site.pages |= dict.fromkeys(("/a", "/b", "/c", "/d"), portuguese)
        result = crawled(tmp_path, site, HEAD_FIRST=1)
    assert_clean(result)
    assert set(site.requests) == {"/", *pages, "/a", "/b", "/c"}
    languages = {line["url"][-2:]: line.get("lang") for line in log_lines(result.folder / "warc")}
    assert (languages["/a"], languages["ed"]) == ("pt-br", None)
