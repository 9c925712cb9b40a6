"""The crawler's own parts among Scrapy's components, and a line for each that is off.

A user may switch each off: `None` under EXTENSIONS and the like, or a `..._BASE` of their own. A
crawl that would lose its pages is refused. Each other part is one line of the log, with the first
line of its module's docstring, which says what it does. A subclass of a part stands in for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from webcrawl import settings as project
from webcrawl.config.fetch import ProxyError, has_proxy

# Without these pages are lost: the path, what is lost, and the setting that asks for the part.
VITAL: Final = {
    "webcrawl.pipelines.warc.WarcPipeline": (
        "no page is archived; to crawl without an archive, set WARC_ENABLED = False",
        "WARC_ENABLED",
    ),
    "webcrawl.crawl.spidermiddleware.PageFetchMiddleware": ("no page ends", ""),
    "webcrawl.extensions.hub.Hub": (
        "no other machine can fetch for this hub of the CLUSTER",
        "CLUSTER",
    ),
}
_OFF: Final = ("0", "False", "false")
# Without these a page takes more time or memory.
_TUNING: Final = ("webcrawl.fastpath.", "webcrawl.extensions.tuning.")


def refusals(settings: BaseSettings) -> list[str]:
    """One line for each part without which pages are lost, or go past PROXY."""
    lines = []
    for name, path in _missing(settings):
        lost, asked_by = VITAL.get(path, ("", ""))
        if lost and (not asked_by or str(settings.get(asked_by) or "0") not in _OFF):
            lines.append(f"{_is_off(name, path)}: {lost}")
    for name, value, ours, _ in _fetching(settings):
        if value is None:
            lines.append(f"{name} = None cannot be used: no page is fetched")
        elif has_proxy(settings) and not _stands_in(value, ours):
            lines.append(str(ProxyError(f"{name} = {value!r} would send requests past it")))
    return lines


def losses(settings: BaseSettings) -> Iterator[str]:
    """One line for each other part that is off. Imports the user's own classes."""
    for name, path in _missing(settings):
        if path not in VITAL and not path.startswith(_TUNING):
            what = import_module(path.rpartition(".")[0]).__doc__ or ""
            yield f"{_is_off(name, path)}. {what.partition(chr(10))[0]}"
    for name, value, ours, lost in _fetching(settings):
        if not _stands_in(value, ours):
            yield f"{name} is {_path_of(value)}: {lost}"


def _missing(settings: BaseSettings) -> Iterator[tuple[str, str]]:
    """The setting and the path of each part of ours that is off, and has no subclass on."""
    for name in ("ITEM_PIPELINES", "SPIDER_MIDDLEWARES", "EXTENSIONS", "DOWNLOADER_MIDDLEWARES"):
        base, users = settings[f"{name}_BASE"] or {}, settings[name] or {}
        places = dict(base) | {_path_of(each): place for each, place in users.items()}
        others = [each for each, place in users.items() if place is not None]
        for path in getattr(project, f"{name}_BASE"):
            if not path.startswith("webcrawl.") or places.get(path) is not None:
                continue
            if not any(_stands_in(each, path) for each in others):
                yield name, path


def _is_off(name: str, path: str) -> str:
    return f"{name}: {path.rpartition('.')[2]} is off"


# What fetches pages: the part of ours, and what is lost without it.
_DOWNLOADER: Final = (
    "webcrawl.downloader.Downloader",
    "a pause, a deny and the page target hold back no request that is about to be sent",
)
_HANDLER: Final = (
    "webcrawl.downloader.DownloadHandler",
    "its pages are archived as reconstructed, from any address, at any size",
)


def _fetching(settings: BaseSettings) -> Iterator[tuple[str, Any, str, str]]:
    """The name of each setting, its value, our part, and what is lost without it."""
    yield "DOWNLOADER", settings["DOWNLOADER"], *_DOWNLOADER
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS")
    for scheme in ("http", "https"):
        yield f"DOWNLOAD_HANDLERS[{scheme!r}]", handlers.get(scheme), *_HANDLER


def _path_of(component: Any) -> str:
    """The path of a component's class, as `..._BASE` has it.

    Only this project's own modules are imported: a user's may import the reactor, too early.
    """
    if isinstance(component, str) and not component.startswith("webcrawl."):
        return component
    try:
        return global_object_name(load_object(component))
    except (ImportError, NameError, TypeError, ValueError):  # Scrapy reports it
        return str(component)


def _stands_in(component: Any, path: str) -> bool:
    """Whether `component` is the class at `path` or a subclass. One that cannot be imported is not.

    Scrapy reports an import that fails.
    """
    try:
        found = load_object(component)
    except (ImportError, NameError, TypeError, ValueError):
        return False
    return isinstance(found, type) and issubclass(found, load_object(path))
