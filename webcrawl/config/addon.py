"""The add-on that makes any Scrapy project crawl as this one: `ADDONS = {"webcrawl.Addon": 100}`.

It sets the defaults of `webcrawl.settings` with the priority "addon": the project's own settings,
`custom_settings` and the command line win over them. Scrapy reads COMMANDS_MODULE before it looks
for add-ons, so a project that wants the commands names them itself (docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# Those of a project, not of a crawl.
_NOT_SET: Final = {"BOT_NAME", "COMMANDS_MODULE", "NEWSPIDER_MODULE", "SPIDER_MODULES"}


class Addon:
    """Scrapy calls the first method once per process, the second once per crawl.

    The first suffices if ADDONS is a setting of the project. The second is for a spider that has it
    in `custom_settings`.
    """

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        """Set the defaults, and add the broad spider. Checks before a crawl need them already."""
        _set_defaults(settings)
        ours, theirs = "webcrawl.spiders", settings.getlist("SPIDER_MODULES")
        if ours not in theirs:  # before theirs: a spider of the same name replaces ours
            priority = settings.getpriority("SPIDER_MODULES") or 0
            settings.set("SPIDER_MODULES", [ours, *theirs], priority)

    def update_settings(self, settings: BaseSettings) -> None:
        """Set the defaults. The event loop that runs already stays: Scrapy refuses another."""
        # Not above: the process that reads large bodies imports this package without Scrapy, and
        # the command line catches Ctrl-C before Scrapy is imported.
        from scrapy.utils.reactor import is_reactor_installed  # noqa: PLC0415

        _set_defaults(settings, {"ASYNCIO_EVENT_LOOP"} if is_reactor_installed() else set())


def _set_defaults(settings: BaseSettings, kept: Collection[str] = ()) -> None:
    from webcrawl import settings as defaults  # noqa: PLC0415  (it imports this package)

    for name in dir(defaults):
        if name.isupper() and name[0] != "_" and name not in _NOT_SET and name not in kept:
            settings.set(name, getattr(defaults, name), "addon")
