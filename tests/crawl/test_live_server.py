"""The control server of a real crawl, asked over real sockets."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from simweb import Running
from tests.conftest import Scrapy
from tests.crawl.crawling import Crawl, assert_clean, until
from tests.crawl.livecrawl import Port, made_up
from tests.forked import running
from webcrawl.live.access import TOKEN_FILE
from webcrawl.live.client import ADDRESS_MAX, SOCKET, NotRunning, Refused, ask
from webcrawl.live.events import READERS_MAX
from webcrawl.live.server import BODY_MAX, CONNECTIONS_MAX

pytestmark = pytest.mark.slow

PAGE = ("/", "/live.js", "/live.css")
PATHS = ("/snapshot", "/events", "/metrics", "/explain?url=x", "/command", "/x")
ORDER = json.dumps({"command": "status", "arguments": []}).encode()
JSON = {"Content_Type": "application/json"}


@pytest.fixture(scope="module")
def web() -> Iterator[Running]:
    """A web that no test crawls to its end."""
    world = ("--hosts", "30", "--pages-per-host", "2000", "--host-delay", "0.1")
    with running(*world, "--partial") as web:
        yield web


@pytest.fixture(scope="module")
def crawl(web: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    folder = tmp_path_factory.mktemp("live")
    crawl = Crawl(folder, web=web, JOBDIR=folder / "job", LIVE=1, DOWNLOAD_DELAY=5)
    Port.of(crawl)
    yield crawl
    crawl.interrupt()
    result = crawl.wait()
    assert_clean(result)
    assert not (folder / "job" / SOCKET).exists()


@pytest.fixture
def port(crawl: Crawl) -> Port:
    return Port.of(crawl)


def jobdir_of(crawl: Crawl) -> Path:
    return crawl.folder / "job"


# Who may ask


@pytest.mark.parametrize("path", PATHS)
def test_no_path_is_answered_without_the_token(port: Port, path: str) -> None:
    joint = "&" if "?" in path else "?"
    wrong: list[dict[str, str]] = [
        {},
        {"Authorization": "Bearer x"},
        {"Authorization": f"Bearer {'x' * 43}"},
        {"Cookie": f"token={port.token}; webcrawl_{port.number}={port.token}"},
    ]
    for address in (path, f"{path}{joint}token={port.token}"):
        for header in wrong:
            answer = port.ask(address, **header)
            assert answer.status == 403
            assert port.token not in answer.text  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", PAGE)
def test_the_page_is_public_and_has_no_token(port: Port, path: str) -> None:
    for address in (path, f"{path}?token={port.token}"):
        answer = port.ask(address)
        assert answer.status == 200
        assert answer.getheader("Set-Cookie") is None
        assert port.token not in answer.text  # type: ignore[attr-defined]
    assert port.status(path, Host=f"evil.example:{port.number}") == 403


def test_the_token_opens_by_header(port: Port) -> None:
    assert port.status("/snapshot", **port.bearer) == 200


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        ["evil.example"],
        ["evil.example:{port}"],
        ["127.0.0.1"],
        ["127.0.0.1:1{port}"],
        ["127.0.0.1:{port}.evil.example"],
        ["127.0.0.1:{port}", "evil.example"],
    ],
)
def test_another_host_is_refused(port: Port, hosts: list[str]) -> None:
    lines = [f"Host: {host.format(port=port.number)}" for host in hosts]
    bearer = f"Authorization: Bearer {port.token}"
    head = "\r\n".join(["GET /snapshot HTTP/1.0", bearer, *lines, "", ""])
    assert port.raw(head.encode()).startswith(b"HTTP/1.0 403 ")


def test_localhost_is_a_name_of_it(port: Port) -> None:
    assert port.status("/snapshot", Host=f"localhost:{port.number}", **port.bearer) == 200


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("", 403),
        ("null", 403),
        ("http://evil.example", 403),
        ("http://127.0.0.1:1", 403),
        ("https://127.0.0.1:{port}", 403),
        ("http://localhost:{port}", 403),
        ("http://127.0.0.1:{port}", 400),  # this body is no command
    ],
)
def test_the_origin_of_a_command_is_our_own(port: Port, origin: str, expected: int) -> None:
    header = {"Origin": origin.format(port=port.number)} if origin else {}
    assert port.status("/command", "POST", b"{}", **header, **JSON, **port.bearer) == expected
    if origin and expected == 403:
        assert port.status("/events", **header, **port.bearer) == 403


def test_a_form_of_another_site_is_no_command(port: Port) -> None:
    own = {"Origin": f"http://127.0.0.1:{port.number}"} | port.bearer
    assert port.status("/command", "POST", ORDER, Content_Type="text/plain", **own) == 415


def test_every_answer_has_the_headers_that_protect_it(port: Port) -> None:
    for path in (*PAGE, "/snapshot"):
        for answer in (port.ask(path, **port.bearer), port.ask(path)):
            assert answer.getheader("Cache-Control") == "no-store"
            assert answer.getheader("X-Content-Type-Options") == "nosniff"
            assert answer.getheader("Referrer-Policy") == "no-referrer"
            policy = answer.getheader("Content-Security-Policy") or ""
            assert policy.startswith("default-src 'none'; script-src 'self';")
            assert "unsafe" not in policy


# What is answered


def test_what_is_wrong_is_one_line(crawl: Crawl) -> None:
    jobdir = jobdir_of(crawl)
    for method, path, body in (
        ("GET", "/nothing", None),
        ("GET", "/", None),  # the page is on TCP only
        ("POST", "/snapshot", {}),
        ("GET", "/explain", None),
        ("GET", "/explain?url=ftp%3A%2F%2Fx", None),
        ("POST", "/command", []),
        ("POST", "/command", {"command": "fly"}),
        ("POST", "/command", {"command": "deny", "arguments": [1]}),
        ("POST", "/command", {"command": "deny", "arguments": "x"}),
    ):
        with pytest.raises(Refused) as refused:
            ask(jobdir, method, path, body)
        assert len(str(refused.value).splitlines()) == 1


def test_a_snapshot_is_made_once_for_all_readers(crawl: Crawl) -> None:
    """At most one in a second."""
    began_at = time.monotonic()
    made = {json.dumps(ask(jobdir_of(crawl), "GET", "/snapshot")) for _ in range(30)}
    assert len(made) <= 2 + time.monotonic() - began_at
    assert b"webcrawl" in str(ask(jobdir_of(crawl), "GET", "/metrics")).encode()


@pytest.mark.parametrize("url", ["http://nowhere.example/", "http://a.example/" + 30 * "x/"])
def test_explain_says_what_the_command_says(crawl: Crawl, scrapy: Scrapy, url: str) -> None:
    answer = ask(jobdir_of(crawl), "GET", f"/explain?url={quote(url, safe='')}")
    said = scrapy("explain", url, "-s", f"JOBDIR={jobdir_of(crawl)}").stdout
    assert isinstance(answer, dict)
    assert answer["lines"] == said.splitlines()


# Limits


def test_a_large_body_is_refused_before_it_is_read(port: Port) -> None:
    head = port.head("POST /command HTTP/1.1")
    for framing in (f"Content-Length: {BODY_MAX + 1}", "Transfer-Encoding: chunked"):
        answer = port.raw(f"{head}{framing}\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert port.raw(f"{head}{framing}\r\n\r\n".encode() + bytes(4 * BODY_MAX))[:13] in (
            b"HTTP/1.1 413 ",
            b"",  # reset: it was sent more than it reads
        )
    assert port.raw(f"{head}Content-Length: {'9' * 4400}\r\n\r\n".encode()) == b""


def test_connections_are_limited_and_the_socket_still_answers(crawl: Crawl, port: Port) -> None:
    address = ("127.0.0.1", port.number)
    idle = [socket.create_connection(address, timeout=60) for _ in range(CONNECTIONS_MAX)]
    try:
        with socket.create_connection(address, timeout=60) as one_more:
            assert closed(one_more)
        assert ask(jobdir_of(crawl), "GET", "/snapshot")
    finally:
        for each in idle:
            each.close()
    until(lambda: port.raw(b"GET / HTTP/1.0\r\n\r\n") != b"")


def test_connections_that_are_reset_behind_a_request_are_forgotten(port: Port) -> None:
    """The request and the reset reach the server as one event."""
    for _ in range(3 * CONNECTIONS_MAX):
        asking = socket.create_connection(("127.0.0.1", port.number), timeout=60)
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with asking, suppress(ConnectionError):
            asking.sendall(f"{port.head('GET /snapshot HTTP/1.1')}\r\n".encode())
    until(lambda: port.raw(b"GET / HTTP/1.0\r\n\r\n") != b"")
    assert port.raw(b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.")


def closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_readers_are_limited_and_forgotten(crawl: Crawl, port: Port) -> None:
    readers = [port.events() for _ in range(READERS_MAX)]
    try:
        assert {reader.status for reader in readers} == {200}
        assert {"counts", "state"} <= readers[0].next("snapshot").keys()
        assert all(reader.next("snapshot") for reader in readers)
        refused = port.events()
        assert refused.status == 503
        refused.close()
    finally:
        for reader in readers:
            reader.close()

    def is_room() -> bool:
        again = port.events()
        again.close()
        return again.status == 200

    until(is_room)


def test_a_slow_reader_gets_the_present_and_delays_no_other() -> None:
    with made_up("--padding", "4000000") as port:
        slow, quick = port.events(receive_buffer=4096), port.events()
        first = slow.next("snapshot")["elapsed_s"]
        last = 0
        while last < first + 4:  # four megabytes in each: more than sockets hold
            last = quick.next("snapshot")["elapsed_s"]
        missed = 0
        before = first
        while before <= last:
            now = slow.next("snapshot")["elapsed_s"]
            missed += now - before - 1
            before = now
        assert missed > 0
        slow.close()
        quick.close()


# The socket in JOBDIR


def test_only_our_user_may_connect_to_the_socket(crawl: Crawl) -> None:
    status = (jobdir_of(crawl) / SOCKET).stat()
    assert stat.S_ISSOCK(status.st_mode)
    assert stat.S_IMODE(status.st_mode) == 0o600
    token = jobdir_of(crawl) / TOKEN_FILE
    assert stat.S_IMODE(token.stat().st_mode) == 0o600


def test_a_long_path_and_a_stale_socket(web: Running, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    jobdir = folder / "job"
    jobdir.mkdir(parents=True)
    assert len(os.fsencode(jobdir / SOCKET)) > ADDRESS_MAX
    with pytest.raises(NotRunning, match="no crawl is running"):
        ask(jobdir, "GET", "/snapshot")
    killed = Crawl(folder, web=web, JOBDIR=jobdir)
    killed.until(" pps @ ")
    assert ask(jobdir, "GET", "/snapshot")
    killed.kill()
    assert (jobdir / SOCKET).exists()
    with pytest.raises(NotRunning, match="no crawl is running"):
        ask(jobdir, "GET", "/snapshot")
    resumed = Crawl(folder, web=web, JOBDIR=jobdir)
    resumed.until(" pps @ ")
    assert ask(jobdir, "GET", "/snapshot")
    resumed.interrupt()
    assert_clean(resumed.wait())
    assert not (jobdir / SOCKET).exists()


def test_a_second_crawl_does_not_take_the_socket_of_the_first(
    crawl: Crawl, web: Running, tmp_path: Path
) -> None:
    second = Crawl(tmp_path, web=web, JOBDIR=jobdir_of(crawl)).wait()
    assert second.exit_code == 1
    (line,) = [line for line in second.log.splitlines() if " ERROR: " in line]
    assert f"in use by another crawl, process {crawl.process.pid}" in line
    assert "Traceback" not in second.log
    assert ask(jobdir_of(crawl), "GET", "/snapshot")
    beside = Crawl(tmp_path, web=web, JOBDIR=jobdir_of(crawl), FRONTIER_STORE="memory")
    beside.until("No control socket")
    beside.interrupt()
    assert beside.wait().exit_code == 0
    assert ask(jobdir_of(crawl), "GET", "/snapshot")


# The setting


def test_a_port_in_use_and_a_wrong_value_are_one_line(scrapy: Scrapy, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        for value, line in (
            (str(number), f"LIVE = '{number}' cannot be used: Address already in use; 1 takes"),
            ("80", "LIVE = '80' cannot be used: 0 (off), 1 (a free port), or a port from 1024"),
            ("yes", "LIVE = 'yes' cannot be used: 0 (off)"),
        ):
            ended: subprocess.CompletedProcess[str] = scrapy(
                "crawl", "broad", "-a", "seeds=http://127.0.0.1:2/", "-s", f"LIVE={value}"
            )
            assert ended.returncode == 2
            assert line in ended.stderr
            assert "Traceback" not in ended.stderr


def test_a_log_file_does_not_get_the_token(web: Running, tmp_path: Path) -> None:
    log, jobdir = tmp_path / "log.txt", tmp_path / "job"
    logged = {"LIVE": 1, "LOG_FILE": log}
    crawl = Crawl(tmp_path, web=web, JOBDIR=jobdir, CLOSESPIDER_PAGECOUNT=5, **logged)
    result = crawl.wait()
    assert result.exit_code == 0
    token = (jobdir / TOKEN_FILE).read_text().strip()
    assert token not in log.read_text() + result.output + result.log
    assert re.search(
        r"Live page: http://127\.0\.0\.1:\d+/\?token=TOKEN "
        rf"\(TOKEN is in {re.escape(str(jobdir / TOKEN_FILE))}\)\n",
        log.read_text(),
    )
    refused = Crawl(tmp_path, web=web, **logged).wait()
    assert refused.exit_code == 2
    (line,) = refused.log.splitlines()
    assert line.startswith("LIVE = '1' cannot be used: with LOG_FILE it needs a JOBDIR")


def test_a_crawl_in_memory_explains_its_urls(web: Running, tmp_path: Path, scrapy: Scrapy) -> None:
    job = str(tmp_path / "job")
    crawl = Crawl(tmp_path, web=web, LIVE=1, FRONTIER_STORE="memory", CRAWL_PROCESSES=2, JOBDIR=job)
    port = Port.of(crawl)
    answer = port.ask("/explain?url=http%3A%2F%2Fa.example%2F", **port.bearer)
    lines = json.loads(answer.text)["lines"]  # type: ignore[attr-defined]
    assert scrapy("explain", job, "http://a.example/").stdout.splitlines() == lines
    crawl.interrupt()
    assert_clean(crawl.wait())
    assert "is no frontier" in scrapy("explain", job, "http://a.example/").stderr
