"""The index of a WACZ: the lines of the CDXJ files, sorted, in gzip members of LINES lines each,
and a list of the members (ZipNum).

Deviation: some captures have a second line, for ReplayWeb.page 2.4.
- It and pywb look a URL up under keys that differ for a path that ends with a slash, and for
  escapes: `com,example)/a` is pywb's key of `http://example.com/a/`, `com,example)/a/` its own. It
  reads the two members next to its key. If the pages below `/a/` fill more, it does not find the
  line with pywb's key. Under its keys pywb asks for nothing.
- It takes the first capture from WARC-Refers-To-Date on for the original of a revisit. By a time in
  seconds, as pywb needs it, the original is before that date, and a later capture of its URL is
  shown in its place. The second line has the time in milliseconds, 17 digits.

Memory: that of `webcrawl.warc.index`, and 150 bytes for each LINES lines.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from webcrawl.warc.earlierlines import Lines
from webcrawl.warc.index import Index
from webcrawl.warc.members import member

LINES: Final = 1024  # as py-wacz and Browsertrix have it
CDX: Final = "index.cdx.gz"

_url = re.compile(r"https?://(?:www\d*\.)?(\[[^]]*\]|[^/?#:]*)(?::(\d*))?([^?#]*)(?:\?([^#]*))?")
_DEFAULT_PORTS = ("http:80", "https:443")


ExactTime = Callable[[str, str], str | None]


def sorted_lines(files: list[tuple[Path, str]], exact_time: ExactTime, path: Path) -> int:
    """Write the lines of CDXJ files, each given with the name of its WARC file, sorted to `path`.
    Return the number of captures.

    `exact_time`: `Captures.exact_time`. EarlierError: a line is no CDXJ, or of another WARC file.
    OSError.
    """
    captures = 0
    with closing(Index(path, path.with_suffix(".open"))) as index:
        for cdxj, warc in files:
            for line, url in _lines_of(cdxj, warc):
                index.make_room()
                index.add(line)
                captures += 1
                key, time, data = line.split(b" ", 2)
                other = replayweb_key(url).encode("utf-8", "replace")
                exact = exact_time(url, time.decode())
                if other != key or exact:
                    index.add(b" ".join((other, exact.encode() if exact else time, data)))
        index.publish()
    return captures


def _lines_of(cdxj: Path, warc: str) -> Iterator[tuple[bytes, str]]:
    """The lines of a CDXJ file and their URLs, without those of answers "not modified": pywb shows
    such an answer as an empty page.
    """
    lines = Lines(cdxj)
    for line in lines:
        if (found := lines.fields(line)) is None:
            continue
        _, fields = found
        if fields.filename != warc:
            raise lines.broken(f"it is of the file {fields.filename!r}, not of {warc}")
        if fields.mime != "warc/revisit" or str(fields.status) != "304":
            yield line + b"\n", str(fields.url or "")


def zip_index(lines: BinaryIO, entries: list[bytes]) -> Iterator[bytes]:
    """The gzip members of sorted `lines`. `entries` gets the lines of the list of members."""
    entries.append(f'!meta 0 {{"format": "cdxj-gzip-1.0", "filename": "{CDX}"}}\n'.encode())
    offset = 0
    while block := list(islice(lines, LINES)):
        packed = member(b"".join(block))
        where: dict[str, Any] = {"offset": offset, "length": len(packed)}
        digest = f"sha256:{hashlib.sha256(packed).hexdigest()}"
        key = b" ".join(block[0].split(b" ", 2)[:2])
        entries.append(key + f" {json.dumps(where | {'digest': digest})}\n".encode())
        offset += len(packed)
        yield packed


def replayweb_key(url: str) -> str:
    """The key under which ReplayWeb.page looks a URL up: `getSurt` of warcio.js 2.4."""
    lower = url.lower()
    found = _url.match(lower)
    if found is None:
        return url
    host, port, path, query = found.groups()
    is_default = f"{lower.partition(':')[0]}:{port}" in _DEFAULT_PORTS
    key = ",".join(reversed(host.split("."))) + (f":{port}" if port and not is_default else "")
    arguments = "&".join(sorted(query.split("&"))) if query else ""
    return f"{key}){path or '/'}" + (f"?{arguments}" if arguments else "")
