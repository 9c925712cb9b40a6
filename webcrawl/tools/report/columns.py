"""The columns of the tables in words: headings, kinds, and values that the CSV has otherwise."""

from __future__ import annotations

_LABELS = {
    "count": ("Count", "count"),
    "stage": ("Stage", "text"),
    "status": ("Code", "label"),
    "level": ("Level", "label"),
    "of": ("Of", "text"),
    "from": ("From", "text"),
    "url": ("URL", "url"),
    "redirect_to": ("Redirects to", "url"),
    "end": ("End", "text"),
    "value": ("Value", "quantity"),
    "unit": ("Unit", "unit"),  # not shown: it stands behind the value
    "urls": ("URLs", "count"),
    "visited_urls": ("Visited URLs", "count"),
    "pending": ("Queued", "count"),
    "pending_urls": ("Queued URLs", "count"),
    "host": ("Host", "host"),
    "registered_domain": ("Registered domain", "host"),
    "mean": ("Mean", "number"),
    "max": ("Max", "number"),
    "size_bytes": ("On the wire", "bytes"),
    "body_bytes": ("Size", "bytes"),
    "media_type": ("Media type", "text"),
    "charset": ("Character set", "text"),
    "lang": ("Language", "text"),
    "detected_language": ("Language", "text"),
    "time_s": ("Time", "s"),
    "share": ("Share", "share"),
    "share_of_extracted": ("Share of E", "share"),
}
STAGE_NAMES = {"dns": "DNS", "connect": "connect", "first_byte": "first byte", "total": "total"}
# Values that the page and the printed lines have in other words than the CSV, by table and column.
WORDS = {
    ("reasons", "ended_as"): {"done": "answered, not kept"},
    ("latency", "stage"): STAGE_NAMES,
    ("seeds", "end"): {"pending": "queued"},
}
_TEXTS = frozenset(("meaning", "reason", "visit", "ended_as", "public_suffix")) | {
    "being_visited",
    "name",
    "service",
    "last",
    "figure",
    "formula",
    "end",
    "stage",
}


def label_of(column: str) -> tuple[str, str]:
    """Heading and kind of a column: text, url, host, label, count, number, bytes, share, ms, s,
    or quantity, whose unit is in the column of the kind unit.
    """
    if column in _LABELS:
        return _LABELS[column]
    if column.endswith("_ms"):
        label = column[:-3].replace("_", " ")
        return label if label[1:].isdigit() else label.capitalize(), "ms"
    if column.startswith("p") and column[1:].isdigit():
        return column, "number"
    return column.replace("_", " ").capitalize(), "text" if column in _TEXTS else "count"
