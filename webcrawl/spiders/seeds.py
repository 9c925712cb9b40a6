"""The seed list: files, URLs, hosts and standard input, read as one stream of canonical URLs.

Owns the meaning of `-a seeds=`. Knows nothing of Scrapy, of scope or of the frontier.

The rules are strict, because a wrong guess crawls the wrong sites:

* The name of an existing file always means that file, even if the name contains commas. Files are
  searched in the working folder, in the project's folder, and among the seed lists packed with the
  project.
* A comma separates two parts. After a URL with a path it does so only before a URL, `-`, a file or
  a host: `http://h/a,b` is one URL, `http://h/a,http://g/` are two.
* A bare word is a host only if it has the shape of one (`ufmg.br`, `host:8080/path`), does not end
  as a list does (`.txt`), and does not resemble the name of an existing list (`br.tx`). Any other
  bare word is a missing file, which is an error.
* A line that contains white space or control characters is not a URL.

Memory: one batch, and one line of at most MAX_LINE bytes.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.base.textfile import NotAFile, check_kind
from webcrawl.base.wording import counted, is_utf8
from webcrawl.frontier.outlinks import SITEMAP_MARK
from webcrawl.parse.urls import canonicalize

ACCEPTED = (
    "-a seeds= takes files, URLs, hosts such as ufmg.br, - for standard input, "
    "or several of these with commas"
)
ACCEPTED_WHILE_RUNNING = "seeds takes files, URLs and hosts such as ufmg.br"
MAX_LINE = 16 * 1024  # bytes; longer than any server accepts in a request line
MAX_EXAMPLES = 10
SHORT_LIST = 64 << 10  # bytes, and characters of its URLs; about 1,500 of them

_LIST_ENDINGS = (".txt", ".gz", ".csv", ".tsv", ".lst", ".list", ".seeds", ".urls")
_PAGE_ENDINGS = (".html", ".htm", ".shtml", ".php", ".asp", ".aspx", ".jsp", ".pdf", ".xml")
_SCHEMES = ("http:", "https:")

# A host with an optional port: a name with a dot whose last label is not a number, a word with a
# port, or an IP address.
_AUTHORITY = re.compile(
    r"(?:[\w-]+\.)+[^\W\d_][\w-]*\.?(?::\d{1,5})?"
    r"|[\w-]+:\d{1,5}"
    r"|localhost"
    r"|\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?"
    r"|\[[0-9a-fA-F:.]+\](?::\d{1,5})?"
)
_URL_WITH_PATH = re.compile(r"https?:/+[^/?#]+(?:/.|[?#])", re.IGNORECASE)
_BLANK_OR_CONTROL = re.compile(r"[\s\x00-\x1f\x7f]")
_COMMENT = re.compile(r"(?:^|\s)#.*", re.DOTALL)
_NOT_ASCII = re.compile(rb"[\x80-\xff]")


class BadSeed(ValueError):  # noqa: N818  (the user's fault; the name is printed)
    """The value of `seeds` cannot be used. Its text is one line for the user."""


class _Source(NamedTuple):
    """One part of `seeds`: a URL, or a list to read lines from."""

    name: str
    url: str = ""
    open: Callable[[], io.BufferedReader] | None = None  # of a list
    size_bytes: int | None = None  # of a file; None for a URL, a pipe and standard input


class SeedSource:
    """The URLs that `spec` names, as a stream that is read once.

    `root` is the project's folder. `while_running`: the crawl runs already, and waits for no pipe.
    Raises BadSeed if a part of `spec` is a missing file, a device or not a URL.
    `bad` counts the invalid lines read so far; `bad_examples` has the first MAX_EXAMPLES.
    `marked` counts the seeds with the mark of a sitemap.
    """

    def __init__(
        self,
        spec: str,
        root: Path | None = None,
        *,
        while_running: bool = False,
    ) -> None:
        folders = [Path(), *([root, root / "seeds"] if root else [])]
        self._accepted = ACCEPTED_WHILE_RUNNING if while_running else ACCEPTED
        self._sources = [
            _source(name, folders, self._accepted, pipes=not while_running)
            for name in _names(spec, folders)
        ]
        self._urls: Iterator[str] = self._read()
        self.bad = 0
        self.bad_examples: list[str] = []
        self.marked = 0

    @property
    def opened(self) -> list[tuple[str, int]]:
        """Name, as in `spec`, and size in bytes of each file."""
        return [(s.name, s.size_bytes) for s in self._sources if s.size_bytes is not None]

    def described(self) -> list[dict[str, Any]]:
        """For the archive, each part of `spec`: a URL, or name, size and SHA-256 of a list, with
        its URLs if it is short. Reads each file, 0.5 s for 1 GB; no pipe and no standard input.
        """
        return [_described(source) for source in self._sources]

    def check(self) -> None:
        """Read up to the first URL, and keep it for `batches`. BadSeed if there is no URL."""
        if not self._sources:
            raise BadSeed(f"no seeds are given; {self._accepted}")
        first = next(self._urls, None)
        if first is None:
            names = ", ".join(source.name for source in self._sources)
            bad = ""
            if self.bad:
                bad = f" ({counted(self.bad, 'bad line')}, the first is {self.bad_examples[0]})"
            raise BadSeed(f"there is no URL in {names}{bad}")
        self._urls = chain([first], self._urls)

    def batches(self, size: int = 1000) -> Iterator[list[str]]:
        """Canonical URLs in lists of up to `size`, repeats included. Blocks on slow input.

        The first lists are short, so that the crawl can begin with the first URLs of a slow stream.
        """
        ready = 1
        while batch := list(islice(self._urls, ready)):
            self.marked += sum(url.startswith(SITEMAP_MARK) for url in batch)
            yield batch
            ready = min(2 * ready, size)

    def _read(self) -> Iterator[str]:
        for source in self._sources:
            if source.open is None:
                yield source.url
                continue
            with source.open() as file:
                yield from self._read_lines(source.name, file)

    def _read_lines(self, name: str, file: io.BufferedReader) -> Iterator[str]:
        number = 0
        try:
            for number, line in enumerate(_lines(file), 1):
                text = _COMMENT.sub("", _text(line)) if b"#" in line else _text(line)
                if not text:
                    continue
                if len(line) < MAX_LINE and (url := line_url(text)):
                    yield url
                else:
                    self._count_bad(f"{name}:{number}: not a URL: {_shown(text)}")
        except (OSError, EOFError, UnicodeError, zlib.error) as error:
            self._count_bad(f"{name}:{number + 1}: cannot be read further: {error}")

    def _count_bad(self, example: str) -> None:
        self.bad += 1
        if len(self.bad_examples) < MAX_EXAMPLES:
            self.bad_examples.append(example)


def _described(source: _Source) -> dict[str, Any]:
    if source.open is None:
        return {"url": source.url}
    described: dict[str, Any] = {"list": Path(source.name).name}
    if source.size_bytes is None:
        return described
    try:
        with source.open() as file:
            described |= {
                "size_bytes": source.size_bytes,
                "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
            }
        if source.size_bytes <= SHORT_LIST:
            urls, left = [], SHORT_LIST  # of a gzip file the list may be much longer
            with source.open() as file:
                for url in SeedSource("")._read_lines(source.name, file):
                    urls.append(url)
                    left -= len(url)
                    if left < 0:
                        return described
            described["urls"] = urls
    except OSError:  # the crawl reads it next, and says so
        pass
    return described


def line_url(text: str) -> str | None:
    """The canonical URL of one line, None if it is not a URL. A bare host gets http://.

    The mark of a sitemap before it stays.
    """
    if _is_marked(text):
        rest = text.removeprefix(SITEMAP_MARK)
        url = None if _is_marked(rest) else line_url(rest)
        return url and SITEMAP_MARK + url
    if _BLANK_OR_CONTROL.search(text):
        return None
    if not text[:6].lower().startswith(_SCHEMES):
        if not _is_bare_host(text):
            return None
        text = f"http://{text}"
    return canonicalize(text)


def _is_marked(text: str) -> bool:
    """Whether `text` has the mark of a sitemap. `sitemap:8080/` is a host with its port."""
    return text.startswith(SITEMAP_MARK) and not _is_bare_host(text)


def _is_bare_host(text: str) -> bool:
    match = _AUTHORITY.match(text)
    return match is not None and (match.end() == len(text) or text[match.end()] in "/?#")


def _lines(file: io.BufferedReader) -> Iterator[bytes]:
    """The lines of a file, gzip or plain. A longer line is cut to MAX_LINE bytes."""
    if file.peek(2)[:2] == b"\x1f\x8b":
        file = io.BufferedReader(gzip.GzipFile(fileobj=file))
    line = file.readline(MAX_LINE).removeprefix(codecs.BOM_UTF8)
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # as PowerShell's > writes it
        raise UnicodeError("it is UTF-16: save it as UTF-8")
    while line:
        yield line
        while len(line) == MAX_LINE and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE)
        line = file.readline(MAX_LINE)


def _text(line: bytes) -> str:
    try:
        return line.decode().strip()
    except UnicodeDecodeError:  # percent-encode the bytes, so that the server gets them unchanged
        return _NOT_ASCII.sub(lambda m: b"%%%02X" % m[0][0], line).decode("ascii").strip()


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def _names(spec: str, folders: list[Path]) -> list[str]:
    """The parts of `spec`, separated by commas that are not part of a URL's path."""
    if _find(spec, folders):
        return [spec]
    names: list[str] = []
    for part in spec.split(","):
        before = names[-1].removeprefix(SITEMAP_MARK) if names else ""
        if _URL_WITH_PATH.match(before) and not _begins_source(part, folders):
            names[-1] += f",{part}"
        else:
            names.append(part)
    return [name for name in (name.strip().rstrip(",") for name in names) if name]


def _begins_source(part: str, folders: list[Path]) -> bool:
    """Whether the text after a comma is a part of its own, not the rest of a URL's path."""
    part = part.strip()
    return (
        part == "-"
        or part.lower().startswith(_SCHEMES)
        or _is_marked(part)
        or part.endswith(_LIST_ENDINGS)
        or (_is_bare_host(part) and not part.endswith(_PAGE_ENDINGS))
        or _find(part, folders) is not None
    )


def _source(name: str, folders: list[Path], accepted: str, *, pipes: bool) -> _Source:
    """The source that `name` means: standard input, a file, a packed list, or a URL. BadSeed."""
    if not is_utf8(name):  # the log and the archive name it
        raise BadSeed(f"the name {_shown(name)} is not UTF-8")
    if name == "-":
        return _Source("standard input", open=_standard_input)
    if (path := _find(name, folders)) is not None:
        if not os.access(path, os.R_OK):
            raise BadSeed(f"the file {name} cannot be read")
        try:
            check_kind(path, path.stat().st_mode, pipes=pipes)
        except NotAFile as error:
            raise BadSeed(str(error)) from None
        size_bytes = path.stat().st_size if path.is_file() else None
        return _Source(name, open=lambda: path.open("rb"), size_bytes=size_bytes)
    if (data := _packed(name)) is not None:
        size_bytes = len(data)
        return _Source(
            name, open=lambda: io.BufferedReader(io.BytesIO(data)), size_bytes=size_bytes
        )
    if name.lower().startswith(_SCHEMES) or "://" in name or _is_marked(name):
        url = line_url(name)
        if url is None:
            raise BadSeed(f"{_shown(name)} is not an http or https URL")
        return _Source(name, url=url)
    similar = _similar(name, folders)
    url = None if similar or name.endswith(_LIST_ENDINGS) else line_url(name)
    if url is None:
        hint = f"; did you mean {similar}?" if similar else f"; {accepted}"
        if Path(name).is_dir():
            raise BadSeed(f"{_shown(name)} is a folder{hint}")
        raise BadSeed(f"there is no file {_shown(name)}{hint}")
    return _Source(name, url=url)


def _standard_input() -> io.BufferedReader:
    """A reader of its own for standard input.

    Python aborts at exit while a thread holds the lock of `sys.stdin`'s buffer.
    """
    return open(os.dup(sys.stdin.fileno()), "rb")


def _find(name: str, folders: list[Path]) -> Path | None:
    """The first file or pipe of this name. Folders do not count: wget names them like hosts."""
    for folder in folders:
        path = folder / name
        if os.path.exists(path) and not os.path.isdir(path):
            return path
    return None


def _packed_lists() -> dict[str, Traversable]:
    """The lists of the package, by file name."""
    folder = resources.files("webcrawl") / "seeds"
    return {file.name: file for file in folder.iterdir() if file.name.endswith(_LIST_ENDINGS)}


def _packed(name: str) -> bytes | None:
    """The content of a packed list; `seeds/` before its name is optional."""
    file = _packed_lists().get(name.removeprefix("seeds/"))
    return file.read_bytes() if file else None


def _similar(name: str, folders: list[Path]) -> str:
    """The list whose name is closest to a mistyped `name`; "" if no name is close."""
    parent, base = os.path.split(name)
    found = {file.name for folder in folders for file in (folder / parent).glob("*.*")}
    lists = [file for file in found | set(_packed_lists()) if file.endswith(_LIST_ENDINGS)]
    closest = get_close_matches(base, lists, n=1, cutoff=0.85)
    return os.path.join(parent, closest[0]) if closest else ""
