"""Writes one WACZ (https://specs.webrecorder.net/wacz/1.1.1/).

The same files give the same bytes: all times in the ZIP are that of `created`. WARC files and the
index are stored, so that a reader gets a record with one request; all else is deflated.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from webcrawl import __version__
from webcrawl.tools.wacz.captures import Page
from webcrawl.tools.wacz.index import CDX, sorted_lines, zip_index

VERSION: Final = "1.1.1"
SOFTWARE: Final = f"webcrawl {__version__}"
_PIECE = 1 << 20
_HUGE = 1 << 40  # bytes; for a file of unknown size
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9._-]")  # Frictionless Data Package, 1: names of resources

Progress = Callable[[int], object]


class Contents(NamedTuple):
    """What a WACZ is made of. `pages` gives the pages of all files each time it is called."""

    warcs: list[Path]
    cdxjs: list[Path]  # of each WARC file
    pages: Callable[[], Iterator[Page]]
    has_text: bool
    about: dict[str, Any]  # of datapackage.json; with `created`


class Written(NamedTuple):
    """What a WACZ has."""

    captures: int
    pages: int


def write_package(contents: Contents, path: Path, progress: Progress) -> Written:
    """Write the WACZ of `contents` to `path`, and sync it. `path` with other endings is used too.

    `progress` is called with bytes of WARC files. EarlierError: a CDXJ cannot be used. OSError.
    """
    lines = path.with_suffix(".cdxj")
    names = [warc.name for warc in contents.warcs]
    captures = sorted_lines(list(zip(contents.cdxjs, names, strict=True)), lines)
    with path.open("wb") as file:
        with ZipFile(file, "w") as zipped:
            package = _Package(zipped, contents.about["created"])
            for warc in contents.warcs:
                package.add(f"archive/{warc.name}", _pieces(warc, progress), warc.stat().st_size)
            entries: list[str] = []
            with lines.open("rb") as sorted_file:
                size_bytes = os.fstat(sorted_file.fileno()).st_size
                package.add(f"indexes/{CDX}", zip_index(sorted_file, entries), size_bytes)
            package.add("indexes/index.idx", map(str.encode, entries), method=ZIP_DEFLATED)
            pages = package.add_pages(contents)
            package.close(contents.about)
        file.flush()
        os.fsync(file.fileno())
    lines.unlink()
    return Written(captures, pages)


class _Package:
    """The ZIP that is being written, and the list of what it holds."""

    def __init__(self, zipped: ZipFile, created: str) -> None:
        self._zip = zipped
        year, month, day, hour, minute, second = map(int, re.findall(r"\d+", created)[:6])
        self._time = (max(year, 1980), month, day, hour, minute, second)  # ZIP begins in 1980
        self._resources: list[dict[str, Any]] = []

    def add(
        self, path: str, pieces: Iterable[bytes], size_max: int = 0, method: int = ZIP_STORED
    ) -> str:
        """Add a file of `size_max` bytes at most (0: of less than 2 GB); return its digest."""
        info = ZipInfo(path, self._time)
        info.compress_type = method
        info.external_attr = 0o644 << 16
        info.file_size = size_max  # so that the ZIP has room for a size of more than 4 GB
        sha256, size_bytes = hashlib.sha256(), 0
        with self._zip.open(info, "w") as file:
            for piece in pieces:
                file.write(piece)
                sha256.update(piece)
                size_bytes += len(piece)
        digest = f"sha256:{sha256.hexdigest()}"
        name = _NOT_IN_A_NAME.sub("-", path.rpartition("/")[2].lower())
        self._resources.append({"name": name, "path": path, "hash": digest, "bytes": size_bytes})
        return digest

    def add_pages(self, contents: Contents) -> int:
        """Add both lists of pages; return the number of pages."""
        numbers = {"pages": 0, "extraPages": 0}
        for name, title in (("pages", "Seeds"), ("extraPages", "Other pages")):
            header: dict[str, Any] = {"format": "json-pages-1.0", "id": name, "title": title}
            if contents.has_text:
                header["hasText"] = True

            def lines(name: str = name, header: dict[str, Any] = header) -> Iterator[bytes]:
                yield _line(header)
                for page in contents.pages():
                    if page.is_seed == (name == "pages"):
                        numbers[name] += 1
                        yield _line(_page_fields(page))

            self.add(f"pages/{name}.jsonl", lines(), _HUGE, ZIP_DEFLATED)
        return sum(numbers.values())

    def close(self, about: dict[str, Any]) -> None:
        """Add the list of all files, and its digest."""
        package = {
            "profile": "data-package",
            "wacz_version": VERSION,
            "software": SOFTWARE,
            **about,
            "resources": self._resources,
        }
        text = json.dumps(package, indent=2, ensure_ascii=False).encode("utf-8", "replace")
        digest = self.add("datapackage.json", [text], method=ZIP_DEFLATED)
        signed = json.dumps({"path": "datapackage.json", "hash": digest}, indent=2).encode()
        self.add("datapackage-digest.json", [signed], method=ZIP_DEFLATED)


def _page_fields(page: Page) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": page.record, "url": page.url, "ts": page.time}
    if page.title:
        fields["title"] = page.title
    if page.text:
        fields["text"] = page.text
    return fields | {"seed": True} if page.is_seed else fields


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _pieces(path: Path, progress: Progress) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece
            progress(len(piece))
