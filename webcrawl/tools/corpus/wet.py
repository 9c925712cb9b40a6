"""Writes texts as `conversion` records (WARC 1.1, 6.8), as Common Crawl's WET files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from uuid import UUID, uuid5

import msgspec

from webcrawl import __version__
from webcrawl.tools.corpus.parts import publishing
from webcrawl.warc.members import member
from webcrawl.warc.records import conversion_record, in_field, warcinfo_record

_NAMESPACE = UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # RFC 9562, 6.6: of URLs


class _Row(msgspec.Struct):
    url: str
    fetch_time: int  # microseconds since 1970
    warc_record_id: str  # in hexadecimal digits
    content_languages: str | None = None


def write_wet(rows: Iterable[tuple[bytes, bytes]], column: str, path: Path) -> None:
    """Write the texts `column` of `rows`, each a row and its texts as JSON. OSError.

    Ids follow from those of the captures, and dates are theirs: the same captures make the same
    bytes. Memory: a text.
    """
    row_of = msgspec.json.Decoder(_Row).decode
    info_id = _new_id(path.name)
    with publishing(path) as unfinished, unfinished.open("wb") as file:
        for line, texts in rows:
            if not texts:
                continue
            row = row_of(line)
            if not file.tell():
                file.write(member(_warcinfo(info_id, row.fetch_time / 1e6, path.name)))
            file.write(member(_conversion(info_id, row, msgspec.json.decode(texts)[column])))
        if not file.tell():
            file.write(member(_warcinfo(info_id, 0.0, path.name)))


def _warcinfo(info_id: str, time: float, filename: str) -> bytes:
    return warcinfo_record(info_id, time, filename, [("software", f"webcrawl/{__version__}")])


def _conversion(info_id: str, row: _Row, text: str) -> bytes:
    more = [
        ("WARC-Warcinfo-ID", info_id),
        ("WARC-Refers-To", _id_of(bytes.fromhex(row.warc_record_id))),
    ]
    if row.content_languages:
        more.append(("WARC-Identified-Content-Language", row.content_languages))
    new_id = _new_id(row.warc_record_id)
    return conversion_record(new_id, row.fetch_time / 1e6, row.url, text, more)


def _new_id(name: str) -> str:
    return f"<urn:uuid:{uuid5(_NAMESPACE, name)}>"


def _id_of(record_id: bytes) -> str:
    if len(record_id) == 16:
        return f"<urn:uuid:{UUID(bytes=record_id)}>"
    return f"<{in_field(record_id.decode('utf-8', 'replace'))}>"
