"""The seed list: files, URLs, hosts and standard input, read as one stream of canonical URLs.

Owns what `-a seeds=` means. Knows nothing of Scrapy, of scope or of the frontier.

House rules, since a mistake here would be a crawl of the wrong thing:

* An existing file wins over any other meaning, commas in its name or not. It is looked for in the
  working folder, in the project's folder, and among the seed lists packed with the project.
* A comma separates, but after a URL with a path only where a URL, `-`, a file or a host follows:
  `http://h/a,b` is one URL, `http://h/a,http://g/` are two.
* A bare word is a host only if it has the shape of one (`ufmg.br`, `host:8080/path`), not the
  ending of a list (`.txt`), and not nearly the name of a list that exists (`br.tx`). Else it is
  a file, and one that is missing.
* A line that holds white space or control characters is no URL.

Memory: one batch, and one line of at most MAX_LINE bytes.
"""

from __future__ import annotations

import codecs
import gzip
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
from typing import NamedTuple

from webcrawl.parse.urls import canonicalize

ACCEPTED = (
    "-a seeds= takes files, URLs, hosts such as ufmg.br, - for standard input, "
    "or several of these with commas"
)
MAX_LINE = 16 * 1024  # bytes; longer than any server accepts in a request line
MAX_EXAMPLES = 10

_LIST_ENDINGS = (".txt", ".gz", ".csv", ".tsv", ".lst", ".list", ".seeds", ".urls")
_PAGE_ENDINGS = (".html", ".htm", ".shtml", ".php", ".asp", ".aspx", ".jsp", ".pdf", ".xml")
_SCHEMES = ("http:", "https:")

# A host with an optional port: a name with a dot whose last label is no number, a word with a
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


class BadSeed(ValueError):  # noqa: N818  (the user's fault, named by what is printed)
    """One line that says what is wrong with `seeds`."""


class _Source(NamedTuple):
    """One of the things that a specification names: a URL, or something to read lines from."""

    name: str
    url: str = ""
    open: Callable[[], io.BufferedReader] | None = None
    size_bytes: int | None = None  # of a file; None for what has no size


class SeedSource:
    """What `spec` names, as a stream that is read once.

    `root` is the project's folder. Raises BadSeed for a file that is missing and for a word that
    means nothing. `bad` counts the lines that are no URL so far.
    """

    def __init__(self, spec: str, root: Path | None = None) -> None:
        folders = [Path(), *([root, root / "seeds"] if root else [])]
        self._sources = [_source(name, folders) for name in _names(spec, folders)]
        self._urls: Iterator[str] = self._read()
        self.bad = 0
        self.bad_examples: list[str] = []

    @property
    def opened(self) -> list[tuple[str, int]]:
        """Name and size in bytes of each file, as given."""
        return [(s.name, s.size_bytes) for s in self._sources if s.size_bytes is not None]

    def check(self) -> None:
        """Read up to the first usable line, which is kept; BadSeed if there is none."""
        if not self._sources:
            raise BadSeed(f"no seeds are given; {ACCEPTED}")
        first = next(self._urls, None)
        if first is None:
            names = ", ".join(source.name for source in self._sources)
            raise BadSeed(f"there is no URL in {names}{self._bad_lines()}")
        self._urls = chain([first], self._urls)

    def batches(self, size: int = 1000) -> Iterator[list[str]]:
        """Canonical URLs in lists of up to `size`, repeats included. Blocks on slow input.

        The first lists are short, so that the first URLs of a slow stream need not wait for more.
        """
        ready = 1
        while batch := list(islice(self._urls, ready)):
            yield batch
            ready = min(2 * ready, size)

    def _bad_lines(self) -> str:
        if not self.bad:
            return ""
        return f" ({self.bad} bad lines, the first is {self.bad_examples[0]})"

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
        except (OSError, EOFError, zlib.error) as error:
            self._count_bad(f"{name}:{number + 1}: cannot be read further: {error}")

    def _count_bad(self, example: str) -> None:
        self.bad += 1
        if len(self.bad_examples) < MAX_EXAMPLES:
            self.bad_examples.append(example)


def line_url(text: str) -> str | None:
    """The canonical URL that one word means, None if it means none. A bare host gets http://."""
    if _BLANK_OR_CONTROL.search(text):
        return None
    if not text[:6].lower().startswith(_SCHEMES):
        if not _is_bare_host(text):
            return None
        text = f"http://{text}"
    return canonicalize(text)


def _is_bare_host(text: str) -> bool:
    match = _AUTHORITY.match(text)
    return match is not None and (match.end() == len(text) or text[match.end()] in "/?#")


def _lines(file: io.BufferedReader) -> Iterator[bytes]:
    """Lines of a file, gzip or plain; of a longer line its first MAX_LINE bytes."""
    if file.peek(2)[:2] == b"\x1f\x8b":
        file = io.BufferedReader(gzip.GzipFile(fileobj=file))
    line = file.readline(MAX_LINE).removeprefix(codecs.BOM_UTF8)
    while line:
        yield line
        while len(line) == MAX_LINE and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE)
        line = file.readline(MAX_LINE)


def _text(line: bytes) -> str:
    try:
        return line.decode().strip()
    except UnicodeDecodeError:  # the bytes that are not UTF-8 go to the server as they are
        return _NOT_ASCII.sub(lambda m: b"%%%02X" % m[0][0], line).decode("ascii").strip()


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def _names(spec: str, folders: list[Path]) -> list[str]:
    """The parts of a specification; a comma inside a URL's path does not part it."""
    if _find(spec, folders):
        return [spec]
    names: list[str] = []
    for part in spec.split(","):
        if names and _URL_WITH_PATH.match(names[-1]) and not _begins_source(part, folders):
            names[-1] += f",{part}"
        else:
            names.append(part)
    return [name for name in (name.strip().rstrip(",") for name in names) if name]


def _begins_source(part: str, folders: list[Path]) -> bool:
    part = part.strip()
    return (
        part == "-"
        or part.lower().startswith(_SCHEMES)
        or part.endswith(_LIST_ENDINGS)
        or (_is_bare_host(part) and not part.endswith(_PAGE_ENDINGS))
        or _find(part, folders) is not None
    )


def _source(name: str, folders: list[Path]) -> _Source:
    """What `name` means; BadSeed if nothing."""
    if name == "-":
        return _Source("standard input", open=_standard_input)
    if (path := _find(name, folders)) is not None:
        if not os.access(path, os.R_OK):
            raise BadSeed(f"the file {name} cannot be read")
        size_bytes = path.stat().st_size if path.is_file() else None
        return _Source(name, open=lambda: path.open("rb"), size_bytes=size_bytes)
    if (data := _packed(name)) is not None:
        packed = io.BytesIO(data)
        return _Source(name, open=lambda: io.BufferedReader(packed), size_bytes=len(data))
    if name.lower().startswith(_SCHEMES) or "://" in name:
        url = line_url(name)
        if url is None:
            raise BadSeed(f"{_shown(name)} is no http or https URL")
        return _Source(name, url=url)
    similar = _similar(name, folders)
    url = None if similar or name.endswith(_LIST_ENDINGS) else line_url(name)
    if url is None:
        hint = f"; did you mean {similar}?" if similar else f"; {ACCEPTED}"
        raise BadSeed(f"there is no file {_shown(name)}{hint}")
    return _Source(name, url=url)


def _standard_input() -> io.BufferedReader:
    """A reader of our own: a process that ends while a thread waits in sys.stdin's would abort."""
    return open(os.dup(sys.stdin.fileno()), "rb")


def _find(name: str, folders: list[Path]) -> Path | None:
    """The first file (or pipe) of this name. A folder is none: wget leaves some named as hosts."""
    for folder in folders:
        path = folder / name
        if os.path.exists(path) and not os.path.isdir(path):
            return path
    return None


def _packed_lists() -> dict[str, Traversable]:
    """The lists packed with the project, by file name: there in a deployed egg."""
    folder = resources.files("webcrawl") / "seeds"
    return {file.name: file for file in folder.iterdir()} if folder.is_dir() else {}


def _packed(name: str) -> bytes | None:
    file = _packed_lists().get(name.removeprefix("seeds/"))
    return file.read_bytes() if file else None


def _similar(name: str, folders: list[Path]) -> str:
    """The list that a mistyped `name` is most like, "" if it is like none."""
    parent, base = os.path.split(name)
    found = {file.name for folder in folders for file in (folder / parent).glob("*.*")}
    lists = [file for file in found | set(_packed_lists()) if file.endswith(_LIST_ENDINGS)]
    closest = get_close_matches(base, lists, n=1, cutoff=0.85)
    return os.path.join(parent, closest[0]) if closest else ""
