"""`scrapy trace`: each line of the trace, against real servers; times are masked."""

from __future__ import annotations

import gzip
import re
import socket
from pathlib import Path

from tests.adapters.rawserver import (
    RawServer,
    Script,
    answering,
    identity,
    path_of,
    read_request,
    server_context,
)
from tests.conftest import Scrapy
from tests.forked import running
from tests.freeport import free_port

HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
LINKS = b'<a href="/a">a</a><a href="/b">b</a><a href="/a">a</a>'
NO_IP_DELAY = ("-s", "IP_DELAY=0")
PRIVATE = ("-s", "ALLOW_PRIVATE_ADDRESSES=1", "-s", "DOWNLOAD_DELAY=0")
START = """\
URL: {url}
  Parsing URL... host 127.0.0.1, port {port}, request /p
  Doing DNS... done in N ms, found 127.0.0.1
"""
CONNECTED = START + "  * Connecting on page... done in N ms\n"


def site(**answers: bytes) -> Script:
    """Answers by the first word of the path, with `page` for any other path."""

    def script(connection: socket.socket) -> None:
        path = path_of(read_request(connection))
        word = path.strip("/").partition(".")[0]
        connection.sendall(answers.get(word, answers["page"]))

    return script


def masked(text: str) -> str:
    return re.sub(r"\d+ ms", "N ms", text)


def trace(
    scrapy: Scrapy, script: Script, *arguments: str, path: str = "/p"
) -> tuple[int, str, str, str]:
    """Exit code, trace with masked times, standard error, and URL."""
    with RawServer(script) as server:
        url = f"http://127.0.0.1:{server.port}{path}"
        done = scrapy("trace", url, *PRIVATE, *arguments)
    assert "Traceback" not in done.stderr
    return done.returncode, masked(done.stdout), done.stderr, url


def expected(text: str, url: str) -> str:
    return text.format(url=url, port=url.rpartition(":")[2].partition("/")[0])


CHUNKS = b"7;name=value\r\n" + LINKS[:7] + b"\r\n%X\r\n" % len(LINKS[7:]) + LINKS[7:] + b"\r\n"
CHUNKED = CHUNKS + b"0\r\nX-Trailer: yes\r\n\r\n"
GZIPPED = gzip.compress(LINKS, mtime=0)

PAGES = {
    "chunked": (
        HTML + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED,
        f"body size was {len(CHUNKED)}, now {len(LINKS)}\n",
    ),
    "length": (
        HTML + b"Content-Length: %d\r\n\r\n%b" % (len(LINKS), LINKS),
        f"body size was {len(LINKS)}, now {len(LINKS)}\n",
    ),
    "end": (HTML + b"\r\n" + LINKS, f"body size was {len(LINKS)}, now {len(LINKS)}\n"),
    "gzip": (
        HTML + b"Content-Encoding: gzip\r\n\r\n" + GZIPPED,
        (
            f"body size was {len(GZIPPED)}, now {len(GZIPPED)}\n"
            f"  Decoding gzip... body size was {len(GZIPPED)}, now {len(LINKS)}\n"
        ),
    ),
    "plain": (
        HTML + b"Content-Encoding: gzip\r\n\r\n" + LINKS,
        (
            f"body size was {len(LINKS)}, now {len(LINKS)}\n"
            f"  Decoding gzip... body size was {len(LINKS)}, now {len(LINKS)}, not gzip\n"
        ),
    ),
}


def test_pages(scrapy: Scrapy) -> None:
    answers = {name: answer for name, (answer, _) in PAGES.items()}
    with RawServer(site(page=b"", **answers)) as server:
        urls = {name: f"http://127.0.0.1:{server.port}/{name}" for name in PAGES}
        done = scrapy("trace", *urls.values(), *PRIVATE, *NO_IP_DELAY)
    assert masked(done.stdout) == "\n".join(
        expected(CONNECTED.replace("/p\n", f"/{name}\n"), urls[name])
        + f"  Loading... done in N ms with {len(answer)} bytes\n"
        f"  Verifying header... status code 200\n  Dechunking... {sizes}"
        "  + Parsing page... done in N ms with 3 links\n\n-----\n"
        + answer.partition(b"\r\n\r\n")[0].decode().replace("\r\n", "\n")
        + "\n"
        for name, (answer, sizes) in PAGES.items()
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_text_is_loaded_too_and_has_no_links(scrapy: Scrapy) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhttp://a/"
    code, out, notes, _ = trace(scrapy, answering(answer))
    assert code == 0
    assert "body size was 9, now 9\n  + Parsing page... done in N ms with 0 links\n" in out
    assert notes == (
        "trace: a crawl would not read this body: CONTENT_TYPES lacks its media type\n"
    )


def test_parsers_of_the_settings_are_used(scrapy: Scrapy) -> None:
    parsers = '{"text/plain": "webcrawl.parse.links.read_html"}'
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + LINKS
    code, out, _, _ = trace(scrapy, answering(answer), "-s", f"PARSERS={parsers}")
    assert code == 0
    assert "+ Parsing page... done in N ms with 3 links\n" in out


def test_other_answers_have_no_body_lines(scrapy: Scrapy) -> None:
    answer = b"HTTP/1.0 404 Not Found\r\nServer: \x1b[31mred\x07 \xc3\xa9 \xe9\xc2\x9b\r\n\r\nno"
    code, out, _, url = trace(scrapy, answering(answer))
    assert out == expected(
        f"{CONNECTED}  Loading... done in N ms with {len(answer)} bytes\n"
        "  Verifying header... status code 404\n\n-----\n"
        "HTTP/1.0 404 Not Found\nServer: \\x1b[31mred\\x07 é \\xe9\\x9b\n",
        url,
    )
    assert code == 0


def test_https(scrapy: Scrapy, tmp_path: Path) -> None:
    context = server_context(tmp_path, identity("127.0.0.1"))
    answer = HTML + b"\r\n" + LINKS
    with RawServer(answering(answer), context) as server:
        done = scrapy("trace", f"https://127.0.0.1:{server.port}/p", *PRIVATE)
    assert done.returncode == 0, done.stderr
    assert masked(done.stdout).splitlines()[3:6] == [
        "  * Connecting on page... done in N ms",
        (
            "  Verifying certificate... self-signed certificate, host name mismatch"
            " (TLSv1.3, TLS_AES_256_GCM_SHA384)"
        ),
        f"  Loading... done in N ms with {len(answer)} bytes",
    ]


# Failures: nothing follows the line of the failed step, and the exit code is 1.

SHORT = ("-s", "DOWNLOAD_TIMEOUT=1")


def hang(connection: socket.socket) -> None:
    while read_request(connection):
        pass


def endless(connection: socket.socket) -> None:
    read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X-More: and more\r\n" * 1000)


FAILURES: dict[str, tuple[Script, str]] = {
    "garbage": (
        answering(b"220 mail\x1b[2J\r\n"),
        (
            "  Loading... done in N ms with 14 bytes\n"
            "  Verifying header... failed with bad_response:"
            " the answer is not HTTP, starts with b'220 mail\\x1b[2J\\r\\n'\n"
        ),
    ),
    "status-line": (
        answering(b"HTTP/1.1 OK\r\n\r\n"),
        (
            "  Loading... done in N ms with 15 bytes\n"
            "  Verifying header... failed with bad_response:"
            " the answer is not HTTP, status line b'HTTP/1.1 OK\\r\\n\\r\\n'\n"
        ),
    ),
    "endless": (
        endless,
        "  Loading... failed with header_too_large: over 32768 bytes\n",
    ),
    "silent": (hang, "  Loading... failed with timeout: no whole header after 1 s\n"),
    "nothing": (
        answering(b""),
        "  Loading... failed with reset: closed before the end of the head\n",
    ),
}


def test_failures(scrapy: Scrapy) -> None:
    def script(connection: socket.socket) -> None:
        name = connection.recv(1000, socket.MSG_PEEK).split()[1].decode()[1:]
        FAILURES[name][0](connection)

    with RawServer(script) as server:
        urls = {name: f"http://127.0.0.1:{server.port}/{name}" for name in FAILURES}
        done = scrapy("trace", *urls.values(), *PRIVATE, *SHORT, *NO_IP_DELAY)
    assert masked(done.stdout) == "\n".join(
        expected(CONNECTED.replace("/p\n", f"/{name}\n"), urls[name]) + ending
        for name, (_, ending) in FAILURES.items()
    )
    assert done.returncode == 1


def test_a_refused_connection(scrapy: Scrapy) -> None:
    done = scrapy("trace", f"http://127.0.0.1:{free_port()}/p", *PRIVATE)
    *before, last = done.stdout.splitlines()
    assert len(before) == 3
    assert last.startswith("  * Connecting on page... failed with connect: [Errno 111]")
    assert done.returncode == 1


def test_a_private_address_is_refused(scrapy: Scrapy) -> None:
    done = scrapy("trace", "http://127.0.0.1/")
    assert done.stdout.splitlines()[2:] == [
        (
            "  Doing DNS... failed with blocked_address: 127.0.0.1;"
            " only ALLOW_PRIVATE_ADDRESSES=1 allows it"
        )
    ]
    assert done.returncode == 1


def test_names_are_looked_up_in_dns(scrapy: Scrapy) -> None:
    with running("--hosts=1", "--features=none") as web:
        (url,) = web.seeds
        settings = (*PRIVATE, "-s", f"DNS_SERVERS={web.dns}")
        done = scrapy("trace", url, *settings)
        missing = scrapy("trace", "http://no-such-host.example/", *settings)
        unserved = scrapy("trace", url, *PRIVATE, "-s", "DNS_SERVERS=127.0.0.1:1")
    assert re.search(
        r"^  Doing DNS\.\.\. done in \d+ ms, found 127\.[\d.]+$", done.stdout, re.MULTILINE
    )
    assert "  Verifying header... status code" in done.stdout
    assert done.returncode == 0
    assert missing.stdout.splitlines()[2:] == [
        "  Doing DNS... failed with nxdomain: the name does not exist"
    ]
    assert missing.returncode == 1
    assert unserved.stdout.splitlines()[2:] == [
        "  Doing DNS... failed with unreachable: no name server could be reached"
    ]


def test_a_cut_body_is_still_shown(scrapy: Scrapy) -> None:
    answer = HTML + b"Content-Length: 1000\r\n\r\n" + LINKS
    code, out, _, _ = trace(scrapy, answering(answer))
    assert f"  Loading... done in N ms with {len(answer)} bytes, cut by the server\n" in out
    code, out, _, _ = trace(scrapy, answering(answer), "-s", "DOWNLOAD_MAXSIZE=20")
    assert "bytes, cut at 20 bytes\n" in out
    assert "  Dechunking... body size was 20, now 20\n" in out
    assert code == 0
    answer = HTML + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 300_000
    _, out, _, _ = trace(scrapy, answering(answer))
    assert "bytes, cut: mostly chunk framing\n" in out, "not by DOWNLOAD_MAXSIZE"


# Redirects.


def test_a_redirect_is_shown(scrapy: Scrapy) -> None:
    moved = b"HTTP/1.1 301 Moved\r\nLocation: /new\r\n\r\n"
    script = site(page=moved, new=HTML + b"\r\n" + LINKS)
    code, out, _, url = trace(scrapy, script)
    target = url.replace("/p", "/new")
    assert out == expected(
        f"{CONNECTED}  Loading... done in N ms with {len(moved)} bytes\n"
        f"  Verifying header... status code 301\n  Redirecting... to {target}\n\n-----\n"
        "HTTP/1.1 301 Moved\nLocation: /new\n",
        url,
    )
    assert code == 0
    code, out, _, url = trace(scrapy, script, "--follow")
    assert f"Location: /new\n\nURL: {url.replace('/p', '/new')}\n  Parsing URL... " in out
    assert "  + Parsing page... done in N ms with 3 links\n" in out
    assert code == 0


def test_a_redirect_loop_ends(scrapy: Scrapy) -> None:
    script = answering(b"HTTP/1.1 302 Found\r\nLocation: /p\r\n\r\n")
    arguments = ("--follow", "-s", "REDIRECT_MAX_TIMES=2", "-s", "IP_DELAY=0")
    code, out, notes, _ = trace(scrapy, script, *arguments)
    assert out.count("URL: ") == 3
    assert notes == "trace: stops after 2 redirects: REDIRECT_MAX_TIMES\n"
    assert code == 1


# robots.txt.

RULES = b"""HTTP/1.1 200 OK\r\n\r\nUser-agent: *
Disallow: /

User-agent: webcrawl
User-agent: other
Disallow: /secret*
Allow: /secret/open  # \x1b[1m
Crawl-delay: 0.5
"""


def test_robots_allow(scrapy: Scrapy) -> None:
    """By a robots.txt that has moved."""
    moved = b"HTTP/1.1 301 Moved\r\nLocation: /rules\r\n\r\n"
    script = site(page=HTML + b"\r\n" + LINKS, robots=moved, rules=RULES)
    code, out, notes, url = trace(scrapy, script, "--robots", *NO_IP_DELAY, path="/secret/open")
    rule = r'line 7, "Allow: /secret/open  # \x1b[1m"'
    assert out.splitlines()[5:13] == [
        "  Verifying header... status code 301",
        f"  Redirecting... to {url.replace('/secret/open', '/rules')}",
        "  * Connecting on robots... done in N ms",
        f"  Loading... done in N ms with {len(RULES)} bytes",
        "  Verifying header... status code 200",
        f"  Checking robots... allowed by {rule}, in the group of webcrawl; crawl delay 0.5 s",
        "  * Connecting on page... done in N ms",
        f"  Loading... done in N ms with {len(HTML + LINKS) + 2} bytes",
    ]
    assert re.fullmatch(r"trace: waits 0\.\d s before the next request to 127\.0\.0\.1\n", notes)
    assert code == 0


def test_robots_disallow(scrapy: Scrapy) -> None:
    script = site(page=HTML + b"\r\n" + LINKS, robots=RULES)
    code, out, _, _ = trace(scrapy, script, "--robots", path="/secret/")
    verdict = (
        '  Checking robots... disallowed by line 6, "Disallow: /secret*", in the group of webcrawl;'
        " crawl delay 0.5 s"
    )
    assert out.splitlines()[-1] == verdict
    assert code == 1
    arguments = ("--robots", "-s", "ROBOTSTXT_OBEY=0", *NO_IP_DELAY)
    code, out, _, _ = trace(scrapy, script, *arguments, path="/secret/")
    assert f"{verdict}\n  * Connecting on page... done in N ms\n" in out
    assert code == 0
    names = ("-s", "ROBOTSTXT_USER_AGENT=webcrawl,Other,GPTBot")
    code, out, _, _ = trace(scrapy, script, "--robots", *names, path="/p")
    verdict = (
        '  Checking robots... disallowed by line 2, "Disallow: /", in the group of *, as gptbot'
    )
    assert out.splitlines()[-1] == f"{verdict}; crawl delay 0.5 s"
    assert code == 1


def test_robots_without_rules(scrapy: Scrapy) -> None:
    script = site(page=HTML + b"\r\n" + LINKS, robots=b"HTTP/1.1 503 No\r\n\r\n")
    code, out, _, _ = trace(scrapy, script, "--robots", *NO_IP_DELAY)
    verdict = "  Checking robots... disallowed: status 503 counts as unreachable"
    assert out.splitlines()[6:] == [verdict]
    assert code == 1


def test_robots_are_fetched_once_for_several_urls(scrapy: Scrapy) -> None:
    script = site(page=HTML + b"\r\n" + LINKS, robots=b"HTTP/1.1 404 No\r\n\r\n")
    with RawServer(script) as server:
        urls = [f"http://127.0.0.1:{server.port}/{page}" for page in ("p", "q")]
        done = scrapy("trace", *urls, "--robots", *PRIVATE, *NO_IP_DELAY)
    assert done.stdout.count("Connecting on robots") == 1
    verdict = "Checking robots... allowed: no rules, since status 404 has none\n"
    assert done.stdout.count(verdict) == 2


# The command line.


def test_wrong_urls_among_others(scrapy: Scrapy) -> None:
    code, out, _, _ = trace(scrapy, answering(HTML + b"\r\n"), *WRONG_URLS, *NO_IP_DELAY)
    lines = [f"URL: {url}\n  Parsing URL... failed with {why}\n" for url, why in WRONG_URLS.items()]
    shown = "\n".join(lines).replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
    assert out.endswith("\nContent-Type: text/html\n\n" + shown)
    assert code == 1


WRONG_URLS = {
    "ftp://h/": "an invalid scheme: not http or https",
    "h": "an invalid scheme: not http or https",
    "http://h:99999/": "an invalid host or port",
    "http://": "an invalid host or port",
    "ftp://\x1b[31m\u202e": "an invalid scheme: not http or https",
}


def test_nothing_is_written(scrapy: Scrapy, tmp_path: Path) -> None:
    assert trace(scrapy, answering(HTML + b"\r\n"), "-s", f"JOBDIR={tmp_path / 'job'}")[0] == 0
    assert list(tmp_path.iterdir()) == []
