"""Writes docs/settings.md: `python -m webcrawl.tools.settingspage > docs/settings.md`.

Names, allowed values and meanings are those of the table of settings, defaults those of
`webcrawl.settings` and Scrapy. A test fails when the page is out of date.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scrapy.settings import BaseSettings, Settings

from webcrawl import __version__
from webcrawl import settings as project
from webcrawl.config.table import MOST_USED, SECTIONS, Setting

INTRODUCTION = """\
# Settings

Set them with `-s NAME=VALUE`, in `custom_settings` of a spider, or in a settings module of your own
that begins with `from webcrawl.settings import *`. A value that is not allowed is one line on
standard error before the crawl starts, and exit code 2. On a command line, commas separate the
items of a list, and a switch is 1 or 0.

[Scrapy's settings](https://docs.scrapy.org/en/latest/topics/settings.html) work too, except
[those without effect](extending.md#settings-without-effect). A name below that is also Scrapy's
has Scrapy's meaning.

Below, `s` is seconds, and "unset" is Python's `None`.

## The twelve that matter
"""
SOURCES = """
This page is generated. Its sources are the table in `webcrawl/config/table.py` and the defaults in
`webcrawl/settings.py`. After a change there, run
`python -m webcrawl.tools.settingspage > docs/settings.md`."""

_BYTES = ((2**20, "MiB"), (2**10, "KiB"), (10**9, "GB"), (10**6, "MB"))


def page() -> str:
    """The text of docs/settings.md."""
    settings = Settings()
    settings.setmodule(project)
    lines = [INTRODUCTION]
    lines += [f"- [`{name}`](#{name.lower()}): {why}" for name, why in MOST_USED.items()]
    for title, rows in SECTIONS.items():
        lines += [
            "",
            f"## {title}",
            "",
            "| setting | default | allowed | meaning |",
            "| --- " * 4 + "|",
        ]
        lines += [_row(row, settings) for row in rows]
    lines.append(SOURCES)
    return "\n".join(lines) + "\n"


def _row(row: Setting, settings: BaseSettings) -> str:
    more = f" ([more]({row.see}))" if row.see else ""
    default = _default(settings.get(row.name), row.kind.unit)
    allowed = row.kind.allowed.replace("*", r"\*")
    anchor = f'<a id="{row.name.lower()}"></a>' if row.name in MOST_USED else ""
    return f"| {anchor}`{row.name}` | {default} | {allowed} | {row.meaning}{more} |"


def _default(value: object, unit: str) -> str:
    """A default as users write it; a number with its unit."""
    if isinstance(value, bool):
        return f"`{value}`"
    if isinstance(value, int | float):
        return _number(value, unit)
    if value is None:
        return "unset"
    text = ", ".join(_items(value)).replace(__version__, "VERSION")
    return f"`{text}`" if text else "empty"


def _items(value: object) -> Iterator[str]:
    if isinstance(value, BaseSettings | Mapping):
        yield from (f"{name}: {each}" for name, each in value.items())
    elif isinstance(value, list | tuple):
        yield from map(str, value)
    else:
        yield str(value)


def _number(number: float, unit: str) -> str:
    """A number with separators; bytes in the largest unit that divides them."""
    for size, name in _BYTES:
        if unit == "bytes" and number and number % size == 0:
            return f"{number // size:,} {name}"
    return f"{number:,.10g} {unit}".rstrip()


if __name__ == "__main__":
    print(page(), end="")
