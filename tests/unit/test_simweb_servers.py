"""The servers: bytes on sockets, and whole crawls by a naive crawler, polite and impolite."""

from __future__ import annotations

import argparse
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from struct import pack

import pytest
from cryptography import x509

from simweb import Running, cli, running
from simweb.addresses import NXDOMAIN, REFUSED, SERVFAIL
from simweb.dns import Names
from simweb.model import World
from simweb.origins import Ports
from simweb.secure import server_name
from simweb.spec import WorldSpec
from tests.conftest import Scrapy

SMALL = ("--slowness", "0.02", "--page-bytes", "2000", "--host-delay", "0.01")


def query(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return pack(">6H", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + pack(">HH", kind, 1)


@pytest.fixture(scope="module")
def names() -> Names:
    return Names(World(WorldSpec(hosts=800, features="all")))


class TestNames:
    def host_with(self, names: Names, kind: str) -> str:
        world = names.world
        rows = world._dns.rows
        hosts = range(world.spec.hosts)
        return world.names()[next(h for h in hosts if rows[world._dns_of[h]].name == kind)]

    @pytest.mark.parametrize(
        ("kind", "rcode"),
        [
            ("dns-nxdomain", NXDOMAIN),
            ("dns-servfail", SERVFAIL),
            ("dns-refused", REFUSED),
            ("dns-empty", 0),
        ],
    )
    def test_no_address(self, names: Names, kind: str, rcode: int) -> None:
        reply = names.answer(query(self.host_with(names, kind)))
        assert reply
        assert reply[3] & 15 == rcode
        assert reply[6:8] == b"\0\0"

    def test_silence(self, names: Names) -> None:
        assert names.answer(query(self.host_with(names, "dns-silent"))) is None

    @pytest.mark.parametrize("kind", ["dns-garbage", "dns-loop"])
    def test_garbage_has_the_id_of_its_query(self, names: Names, kind: str) -> None:
        reply = names.answer(query(self.host_with(names, kind)))
        assert reply
        assert reply[:2] == b"\0\7"

    @pytest.mark.parametrize("data", [b"", b"x" * 11, b"\0" * 12, query("a.br")[:-1], b"\xff" * 40])
    def test_bytes_that_are_not_a_query_get_no_answer(self, names: Names, data: bytes) -> None:
        assert names.answer(data) is None


def ask(port: int, request: bytes, count: int = 1) -> bytes:
    with socket.create_connection(("127.1.0.1", port), timeout=60) as sock:
        sock.sendall(request * count)
        data = b""
        while piece := sock.recv(1 << 16):
            data += piece
    return data


@pytest.fixture(scope="module")
def web() -> Iterator[Running]:
    with running("--hosts", "3", "--ips", "1", "--features", "none", *SMALL) as web:
        yield web


class TestHttp:
    def test_get_head_and_unknown_paths_and_methods(self, web: Running) -> None:
        host = web.seeds[0].split("/")[2].encode()
        tail = b" HTTP/1.1\r\nhost:" + host + b"\r\nConnection: close\r\n\r\n"
        page = ask(web.port, b"GET /" + tail)
        head, _, body = page.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"Content-Length: %d\r\n" % len(body) in head
        assert ask(web.port, b"HEAD /" + tail) == head + b"\r\n\r\n"
        assert ask(web.port, b"GET /nada" + tail).startswith(b"HTTP/1.1 404 ")
        assert ask(web.port, b"POST /" + tail).startswith(b"HTTP/1.1 405 ")
        assert ask(web.port, b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 400 ")
        assert ask(web.port, b"x\r\n\r\n") == b""

    def test_a_connection_is_kept(self, web: Running) -> None:
        host = web.seeds[0].split("/")[2].encode()
        more = b"GET /robots.txt HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"
        last = b"GET /robots.txt HTTP/1.0\r\nHost: " + host + b"\r\n\r\n"
        with socket.create_connection(("127.1.0.1", web.port), timeout=60) as sock:
            for byte in more:
                sock.sendall(bytes([byte]))
            sock.sendall(more + last)
            data = b""
            while piece := sock.recv(1 << 16):
                data += piece
        assert data.count(b"HTTP/1.1 200 OK") == 3

    def test_a_prepared_page(self) -> None:
        """The first answer was made at the start, the second is made on request: they are equal."""
        few = ("--hosts", "1", "--features", "none", "--prepared", "1")
        with running(*few, *SMALL) as web:
            host = web.seeds[0].split("/")[2].encode()
            get = b"GET / HTTP/1.0\r\nHost: " + host + b"\r\n\r\n"
            first, second = ask(web.port, get), ask(web.port, get)
            assert first.startswith(b"HTTP/1.1 200 OK\r\n")
            assert first == second
            assert web.ledger()["violations"]["twice"]["count"] == 1

    def test_reset_begins_a_new_ledger(self, web: Running) -> None:
        ask(web.port, b"GET / HTTP/1.0\r\nHost: nada.br\r\n\r\n")
        assert web.ledger()["violations"]["unknown_host"]["count"]
        web.reset()
        assert web.ledger()["totals"] == {}


def own_address() -> str:
    """An address of this machine outside of loopback, or "". Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.77", 9))
        except OSError:
            return ""
        address: str = sock.getsockname()[0]
    return "" if address.startswith("127.") else address


def test_nothing_is_served_beyond_loopback(web: Running) -> None:
    address = own_address()
    if not address:
        pytest.skip("this machine has no address but loopback's")
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    for port in (web.port, web.https, int(web.dns.rpartition(":")[2])):
        answer = b""
        try:
            with socket.create_connection((address, port), timeout=30) as client:
                client.sendall(request)
                answer = client.recv(1)
        except ConnectionError:
            pass
        assert answer == b"", port
    for ip in ("127.0.0.1", "127.77.7.7", "127.255.255.254"):
        with socket.create_connection((ip, web.port), timeout=30) as client:
            client.sendall(request)
            assert client.recv(5) == b"HTTP/"


@pytest.fixture(scope="module")
def secure_world() -> Iterator[tuple[Running, World]]:
    features = "none,origin-*=60"
    with running("--hosts", "60", "--features", features, *SMALL) as web:
        spec = WorldSpec(hosts=60, features=features, host_delay_s=0.01, page_bytes=2000)
        yield web, World(spec, Ports(web.port, web.https, 1))


class TestSecure:
    def host_with(self, world: World, kind: str) -> tuple[str, str]:
        """Name and address."""
        host = next(h for h in range(60) if world.origin_kind(h).name == f"origin-{kind}")
        return world.names()[host], world.host(host).dns.addresses[0]

    def shake_hands(self, web: Running, name: str, address: str) -> tuple[str, bytes, bytes]:
        """TLS version, certificate, and the answer to a request for robots.txt."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with (
            socket.create_connection((address, web.https), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname=name) as secured,
        ):
            secured.sendall(f"GET /robots.txt HTTP/1.0\r\nHost: {name}\r\n\r\n".encode())
            return (
                secured.version() or "",
                secured.getpeercert(binary_form=True) or b"",
                secured.recv(1000),
            )

    @pytest.mark.parametrize("kind", ["https", "moved", "expired", "other-name", "old"])
    def test_certificates(self, secure_world: tuple[Running, World], kind: str) -> None:
        web, model = secure_world
        name, address = self.host_with(model, kind)
        version, der, answer = self.shake_hands(web, name, address)
        certificate = x509.load_der_x509_certificate(der)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert (version == "TLSv1") is (kind == "old")
        assert (name in str(certificate.subject)) is (kind != "other-name")
        expired = certificate.not_valid_after_utc < datetime.now(UTC)
        assert expired is (kind == "expired")

    @pytest.mark.parametrize("hello", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 200])
    def test_bytes_that_are_not_a_client_hello_have_no_name(self, hello: bytes) -> None:
        assert server_name(hello) == ""


class TestCommandLine:
    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "simweb", *arguments]
        return subprocess.run(
            command, input="", capture_output=True, text=True, timeout=120, check=False
        )

    def test_it_prints_its_ports_and_ends_with_its_standard_input(self, tmp_path: Path) -> None:
        seeds = tmp_path / "seeds.txt"
        done = self.run("--hosts", "30", "--seeds-out", str(seeds))
        ready, report = map(json.loads, done.stdout.splitlines())
        assert done.returncode == 0
        assert ready["seeds"] == str(seeds)
        assert len(seeds.read_text().splitlines()) == 3
        assert report["missing"]["count"] > 0

    def test_strict_sets_the_exit_code(self) -> None:
        assert self.run("--hosts", "3", "--strict").returncode == 1

    @pytest.mark.parametrize("option", ["--port", "--https-port", "--dns-port", "--control-port"])
    @pytest.mark.parametrize("port", ["99999", "-1"])
    def test_a_port_that_is_none_is_one_line(
        self, option: str, port: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        parser = argparse.ArgumentParser()
        cli.add_arguments(parser)
        assert cli.run(parser.parse_args([option, port])) == 2
        assert capsys.readouterr().err == f"simweb: {option} {port}: ports are 0 to 65535\n"

    def test_an_unknown_feature_is_one_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        parser = argparse.ArgumentParser()
        cli.add_arguments(parser)
        assert cli.run(parser.parse_args(["--features", "page-405"])) == 2
        line = "no feature is called 'page-405'; --list-features shows them"
        assert capsys.readouterr().err == f"simweb: {line}\n"

    def test_help_of_the_command_has_the_options(self, scrapy: Scrapy) -> None:
        usage = scrapy("simweb", "--help").stdout.partition("Serve a")[0]
        assert "scrapy simweb [-h]" in usage
        assert "[--https-port PORT]" in usage

    def test_sigterm_ends_it_with_its_report(self) -> None:
        command = [sys.executable, "-m", "simweb", "--hosts", "3"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
            assert process.stdout
            process.stdout.readline()
            process.terminate()
            assert "violations" in json.loads(process.stdout.readline())
            assert process.wait(60) == 0
