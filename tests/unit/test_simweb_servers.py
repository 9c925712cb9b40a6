"""The servers: the errors of names, addresses that are served, and the command line."""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest

from simweb import Running, cli, running
from simweb.addresses import NXDOMAIN, REFUSED, SERVFAIL
from simweb.dns import Names
from simweb.model import World
from simweb.spec import WorldSpec
from tests.cases import each_of

SMALL = ("--slowness", "0.02", "--page-bytes", "2000", "--host-delay", "0.01")


def query(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return pack(">6H", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + pack(">HH", kind, 1)


@each_of(
    ("kind", "rcode"),
    [
        ("dns-nxdomain", NXDOMAIN),
        ("dns-servfail", SERVFAIL),
        ("dns-refused", REFUSED),
        ("dns-empty", 0),
    ],
)
def test_a_name_without_an_address_has_its_error(kind: str, rcode: int) -> None:
    """The crawls see only that it has none."""
    world = World(WorldSpec(hosts=200, features=f"none,{kind}=100"))
    host = next(n for n in range(200) if world._dns.rows[world._dns_of[n]].name == kind)
    reply = Names(world).answer(query(world.names()[host]))
    assert reply
    assert reply[3] & 15 == rcode
    assert reply[6:8] == b"\0\0"


@pytest.fixture(scope="module")
def web() -> Iterator[Running]:
    with running("--hosts", "3", "--ips", "1", "--features", "none", *SMALL) as web:
        yield web


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

    def test_sigterm_ends_it_with_its_report(self) -> None:
        command = [sys.executable, "-m", "simweb", "--hosts", "3"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
            assert process.stdout
            process.stdout.readline()
            process.terminate()
            assert "violations" in json.loads(process.stdout.readline())
            assert process.wait(60) == 0
