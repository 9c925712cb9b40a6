"""Real sites on loopback: documentation packages of Debian, served by nginx under their own names.

Downloads and serves them, and reads the servers' logs. Installs nothing: packages (and nginx, if
the machine has none) are unpacked into a folder that is kept. `closure` computes which pages a
crawl must find.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simweb.addresses import Answer
from simweb.dns import DnsServer, Names

ROOT = Path(__file__).parents[2]
# The folder in which packages are kept between runs.
CACHE = Path(os.environ.get("REAL_SITES_CACHE") or ROOT / "crawl" / "real-sites")


@dataclass(frozen=True)
class Site:
    """One host. Its files' names are the names that pages link to, plus `suffix`."""

    host: str
    package: str
    docroot: str
    suffix: str = ""

    def folder(self, cache: Path) -> Path:
        return cache / self.package / self.docroot


SITES = (
    Site("docs.python.org", "python3.11-doc", "usr/share/doc/python3.11/html"),
    Site("www.postgresql.org", "postgresql-doc-15", "usr/share/doc/postgresql-doc-15/html"),
    Site("debian-handbook.info", "debian-handbook", "usr/share/doc/debian-handbook/html"),
    Site("guia.debian.org", "installation-guide-amd64", "usr/share/doc/installation-guide-amd64"),
    Site("referencia.debian.org", "debian-reference-pt-br", "usr/share/debian-reference"),
    Site("docs.gimp.org", "gimp-help-pt", "usr/share/gimp/2.0/help/pt"),
    Site("httpd.apache.org", "apache2-doc", "usr/share/doc/apache2-doc/manual", suffix=".en"),
    Site("sqlite.org", "sqlite3-doc", "usr/share/doc/sqlite3"),
    Site("llvm.org", "llvm-14-doc", "usr/share/doc/llvm-14-doc/html"),
    Site("docs.djangoproject.com", "python-django-doc", "usr/share/doc/python-django-doc/html"),
    Site("www.kernel.org", "linux-doc-6.1", "usr/share/doc/linux-doc-6.1/html"),
    Site("docs.oracle.com", "openjdk-17-doc", "usr/share/doc/openjdk-17-jre-headless/api"),
    Site("doc.rust-lang.org", "rust-doc", "usr/share/doc/rust-doc/html"),
    Site("en.cppreference.com", "cppreference-doc-en-html", "usr/share/cppreference/doc/html/en"),
    Site("www.boost.org", "libboost1.74-doc", "usr/share/doc/libboost1.74-doc"),
)

# Media types by the last extension of a file's name; all others are application/octet-stream.
TYPES = {
    "text/html": ("html", "htm"),
    "application/xhtml+xml": ("xhtml",),
    "text/css": ("css",),
    "text/plain": ("txt",),
    "image/png": ("png",),
    "image/svg+xml": ("svg",),
    "application/pdf": ("pdf",),
}

_CONFIG = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    log_format seen '$msec $request_time $host $status $request_method $request_uri';
    access_log {folder}/access.log seen;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    default_type application/octet-stream;
    types {{ {types} }}
    gzip on;
    gzip_comp_level 1;
    {servers}
}}
"""
_SERVER = """
    server {{
        listen {address}:{port};
        server_name {host};
        root {root};
        index index.html index.html{suffix};
        {variants}
    }}"""
_VARIANTS = """types {{ text/html html {language}; }}
        location / {{ try_files $uri $uri{suffix} $uri/ =404; }}"""


class Unavailable(Exception):  # noqa: N818  (a reason to skip, not an error)
    """The sites cannot be served here: no Debian, no package, or no nginx."""


@dataclass(frozen=True)
class Seen:
    """One request in nginx's log. `started_at` is in seconds, exact to some milliseconds."""

    started_at: float
    host: str
    status: int
    method: str
    target: str


@dataclass(frozen=True)
class RealWeb:
    """Sites that are being served. `dns` is a value for the crawler's DNS_SERVERS."""

    sites: tuple[Site, ...]
    cache: Path
    port: int
    dns: str
    asked: Iterable[str]  # names looked up at the DNS server
    _log: Path

    def origin(self, site: Site) -> str:
        return f"http://{site.host}" + (f":{self.port}" if self.port != 80 else "")

    @property
    def seeds(self) -> list[str]:
        """The front page of each site, or the front pages of its parts."""
        seeds = []
        for site in self.sites:
            folder = site.folder(self.cache)
            fronts = list(folder.glob("index.*")) or sorted(folder.glob("*/index.*"))
            paths = [front.relative_to(folder).as_posix() for front in fronts]
            if "index.html" in paths:
                paths = [""]
            seeds += [f"{self.origin(site)}/{path.removesuffix(site.suffix)}" for path in paths]
        return seeds

    def settings(self, delay_s: float) -> dict[str, Any]:
        """Settings of a crawl of these sites only, with the same delay per host and per address."""
        origins = "|".join(self.origin(site).replace(".", r"\.") for site in self.sites)
        return {
            "DNS_SERVERS": self.dns,
            "ALLOW_PRIVATE_ADDRESSES": 1,
            "SCOPE_ALLOW": f"re:^(?:{origins})/",
            "DOWNLOAD_DELAY": delay_s,
            "IP_DELAY": delay_s,
        }

    def seen(self) -> list[Seen]:
        """All requests so far, in the order of their answers."""
        requests = []
        for line in self._log.read_text().splitlines():
            ended, took, host, status, method, target = line.split(" ", 5)
            started_at = float(ended) - float(took)
            requests.append(Seen(started_at, host, int(status), method, target))
        return requests


@contextlib.contextmanager
def serving(sites: Iterable[Site], folder: Path, cache: Path = CACHE) -> Iterator[RealWeb]:
    """Serve `sites` until the block ends, each at its own address; logs go to `folder`.

    Raises Unavailable if that is not possible.
    """
    sites = tuple(sites)
    addresses = {site.host: f"127.0.1.{number}" for number, site in enumerate(sites, 1)}
    for site in sites:
        _unpack(site.package, cache)
        if not site.folder(cache).is_dir():
            raise Unavailable(f"{site.package} has no {site.docroot}")
    with contextlib.ExitStack() as servers:
        dns, asked = servers.enter_context(_dns(addresses))
        with _locked(cache / "port"):  # until nginx has it: another run must not find it free
            port = _free_port(addresses.values())
            log = servers.enter_context(_nginx(sites, addresses, port, folder, cache))
        yield RealWeb(sites, cache, port, dns, asked, log)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other test runs out of the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _unpack(package: str, cache: Path) -> Path:
    """The folder with the files of a Debian package, downloaded once even by parallel test runs."""
    folder = cache / package
    with _locked(folder):
        if not folder.is_dir():
            _download(package, folder)
    return folder


def _download(package: str, folder: Path) -> None:
    """Download the files of a Debian package into `folder`: all files or, on an error, no file."""
    download = folder.with_name(f"{package}.part")
    shutil.rmtree(download, ignore_errors=True)
    (download / "files").mkdir(parents=True)
    try:
        subprocess.run(
            ["apt-get", "download", "--quiet", package],
            cwd=download, check=True, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        (archive,) = download.glob("*.deb")
        subprocess.run(["dpkg", "-x", archive, download / "files"], check=True)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or error
        raise Unavailable(f"package {package}: {reason}") from None
    (download / "files").rename(folder)
    shutil.rmtree(download)


def _free_port(addresses: Iterable[str]) -> int:
    """Port 80 if it is free and allowed, so that URLs need no port; else any free port."""
    for port in (80, 0):
        try:
            with contextlib.ExitStack() as sockets:
                for address in addresses:
                    listener = sockets.enter_context(socket.create_server((address, port)))
                    port = listener.getsockname()[1]
                return port
        except OSError:
            continue
    raise Unavailable("no port for nginx")


@contextlib.contextmanager
def _nginx(
    sites: Iterable[Site], addresses: dict[str, str], port: int, folder: Path, cache: Path
) -> Iterator[Path]:
    """Run nginx in the foreground; yields the path of its access log."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
    nginx = shutil.which("nginx", path=path) or _unpack("nginx", cache) / "usr/sbin/nginx"
    servers = [
        _SERVER.format(
            address=addresses[site.host],
            port=port,
            host=site.host,
            root=site.folder(cache),
            suffix=site.suffix,
            variants=site.suffix
            and _VARIANTS.format(language=site.suffix.removeprefix("."), suffix=site.suffix),
        )
        for site in sites
    ]
    types = " ".join(f"{kind} {' '.join(names)};" for kind, names in TYPES.items())
    config, errors = folder / "nginx.conf", folder / "error.log"
    config.write_text(_CONFIG.format(folder=folder, types=types, servers="".join(servers)))
    command = [nginx, "-c", config, "-e", errors]
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError as error:
        raise Unavailable(f"nginx: {error}") from None
    try:
        _await_listening(process, folder / "nginx.pid", errors)
        yield folder / "access.log"
    finally:
        process.terminate()
        process.wait()


def _await_listening(process: subprocess.Popen[bytes], pid: Path, errors: Path) -> None:
    """Wait until nginx has its sockets: then it writes its number. Raises Unavailable."""
    while not pid.exists():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
            said = errors.read_text() if errors.exists() else ""
            raise Unavailable(f"nginx ended: {said}")


class _World:
    """The part of simweb's World that its DNS server needs."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self._addresses = addresses

    def find(self, name: str) -> str | None:
        return name if name in self._addresses else None

    def host(self, name: str) -> Any:
        return SimpleNamespace(dns=Answer(addresses=(self._addresses[name],)))


@contextlib.contextmanager
def _dns(addresses: dict[str, str]) -> Iterator[tuple[str, Iterable[str]]]:
    """Run a DNS server in a thread; yields its address, and the names looked up so far."""
    names = Names(_World(addresses))  # type: ignore[arg-type]
    server = DnsServer(names)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(server.start("127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.port}", names.asked
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.run_until_complete(asyncio.sleep(0))  # sockets close one turn of the loop later
        loop.close()
