"""Writes one WACZ (https://specs.webrecorder.net/wacz/1.1.1/).

The same files give the same bytes: all times in the ZIP are that of `created`. WARC files and the
index are stored, so that a reader gets a record with one request; all else is deflated.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from webcrawl import __version__
from webcrawl.tools.progress import Progress
from webcrawl.tools.stored import StoredFile, size_of
from webcrawl.tools.wacz.captures import Captures
from webcrawl.tools.wacz.index import CDX, sorted_lines, zip_index

VERSION: Final = "1.1.1"
SOFTWARE: Final = f"webcrawl {__version__}"
_PIECE = 1 << 20
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9._-]")  # Frictionless Data Package, 1: names of resources


class Contents(NamedTuple):
    """What a WACZ is made of."""

    warcs: Sequence[Path | StoredFile]
    cdxjs: Sequence[Path]  # of each WARC file
    captures: Captures
    numbers: range  # of the WARC files, in `captures`
    has_text: bool
    about: dict[str, Any]  # of datapackage.json; with `created`


def write_package(contents: Contents, path: Path, progress: Progress) -> tuple[int, int]:
    """Write the WACZ of `contents` to `path`, and sync it; return the numbers of its captures and
    its pages. `path` with other endings is used too.

    `progress` is called with bytes of WARC files. EarlierError: a CDXJ cannot be used. OSError.
    """
    lines = path.with_suffix(".cdxj")
    names = [warc.name for warc in contents.warcs]
    files = list(zip(contents.cdxjs, names, strict=True))
    captures = sorted_lines(files, contents.captures.exact_time, lines)
    with path.open("wb") as file:
        with ZipFile(file, "w") as zipped:
            package = _Package(zipped, contents.about["created"], path.with_suffix(".tmp"))
            for warc in contents.warcs:
                package.add_file(f"archive/{warc.name}", warc, ZIP_STORED, progress)
            entries: list[bytes] = []
            with lines.open("rb") as sorted_file:
                package.add(f"indexes/{CDX}", zip_index(sorted_file, entries), ZIP_STORED)
            package.add("indexes/index.idx", entries)
            pages = package.add_pages(contents)
            package.close(contents.about)
        file.flush()
        os.fsync(file.fileno())
    lines.unlink()
    return captures, pages


class _Package:
    """The ZIP that is being written, and the list of what it holds."""

    def __init__(self, zipped: ZipFile, created: str, temporary: Path) -> None:
        self._zip = zipped
        self._temporary = temporary
        year, month, day, hour, minute, second = map(int, re.findall(r"\d+", created))
        self._time = (year, month, day, hour, minute, second)
        self._resources: list[dict[str, Any]] = []

    def add(self, path: str, pieces: Iterable[bytes], method: int = ZIP_DEFLATED) -> str:
        """Add a file with the content `pieces`; return its digest."""
        with self._temporary.open("wb") as file:
            file.writelines(pieces)
        return self.add_file(path, self._temporary, method)

    def add_file(
        self,
        path: str,
        source: Path | StoredFile,
        method: int,
        progress: Progress = lambda size_bytes: None,
    ) -> str:
        """Add the file `source` as `path`; return its digest.

        An entry has the fields of ZIP64 in its own header exactly if it has them in the list of
        entries, which is only known with its size: ReplayWeb.page takes one from the other.
        """
        info = ZipInfo(path, self._time)
        info.compress_type = method
        info.external_attr = 0o644 << 16
        sha256 = hashlib.sha256()
        size_bytes = size_of(source)
        with source.open("rb") as file:
            info.file_size = size_bytes if size_bytes > zipfile.ZIP64_LIMIT else 0
            with self._zip.open(info, "w") as entry:
                while piece := file.read(_PIECE):
                    entry.write(piece)
                    sha256.update(piece)
                    progress(len(piece))
        digest = f"sha256:{sha256.hexdigest()}"
        name = _NOT_IN_A_NAME.sub("-", path.rpartition("/")[2].lower())
        self._resources.append({"name": name, "path": path, "hash": digest, "bytes": size_bytes})
        return digest

    def add_pages(self, contents: Contents) -> int:
        """Add both lists of pages; return the number of pages."""
        number = 0

        def lines(name: str, title: str, *, has_seeds: bool) -> Iterator[bytes]:
            nonlocal number
            header: dict[str, Any] = {"format": "json-pages-1.0", "id": name, "title": title}
            yield _line(header | {"hasText": True} if contents.has_text else header)
            for page in contents.captures.pages(contents.numbers, is_seed=has_seeds):
                number += 1
                fields = {"id": page.record, "url": page.url, "ts": page.time}
                more = {"title": page.title, "text": page.text, "seed": has_seeds}
                yield _line(fields | {key: value for key, value in more.items() if value})

        self.add("pages/pages.jsonl", lines("pages", "Seeds", has_seeds=True))
        self.add("pages/extraPages.jsonl", lines("extraPages", "Other pages", has_seeds=False))
        return number

    def close(self, about: dict[str, Any]) -> None:
        """Add the list of all files, and its digest."""
        package = {
            "profile": "data-package",
            "wacz_version": VERSION,
            "software": SOFTWARE,
            **about,
            "resources": self._resources,
        }
        digest = self.add("datapackage.json", [_json(package)])
        self.add("datapackage-digest.json", [_json({"path": "datapackage.json", "hash": digest})])


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
