"""Adds seeds to a running crawl: the command `seeds` of `extensions.steering`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from scrapy.exceptions import CloseSpider

from webcrawl.base.wording import counted
from webcrawl.hub.wire import SteeringError
from webcrawl.scheduler.scheduler import Scheduler
from webcrawl.spiders.broad import in_daemon, portions, project_root
from webcrawl.spiders.seeds import BadSeed, SeedSource


async def put_seeds(
    scheduler: Scheduler, arguments: Sequence[str], is_ending: Callable[[], bool], *, has_caps: bool
) -> str:
    """Put all seeds, batch by batch; one line with their counts. SteeringError.

    Meanwhile the crawl does not end by itself. `has_caps`: a cap may refuse a seed.
    """
    scheduler.holds += 1
    counts = _Counts(has_caps)
    try:
        for source in await in_daemon(partial(_sources, arguments)):
            async for urls in portions(source):
                if is_ending():
                    raise SteeringError(f"the crawl is ending: {counts}; the rest is lost")
                counts.add(len(urls), *await scheduler.add_seeds(urls))
            counts.bad += source.bad
    except BadSeed as error:
        raise SteeringError(f"no seed is added: {error}") from None
    except CloseSpider:
        raise SteeringError(f"the frontier failed: {counts}; the rest is lost") from None
    finally:
        scheduler.holds -= 1
        scheduler.wake()
    return str(counts)


class _Counts:
    """What came of seeds."""

    def __init__(self, has_caps: bool) -> None:
        self.added = self.known = self.outside = self.bad = 0
        self._has_caps = has_caps

    def __str__(self) -> str:
        known = "known or over a cap" if self._has_caps else "known"
        return (
            f"{counted(self.added, 'seed')} added, {self.known:,} {known},"
            f" {self.outside:,} out of scope, {self.bad:,} not a URL"
        )

    def add(self, urls: int, accepted: int, in_scope: int) -> None:
        self.added += accepted
        self.known += in_scope - accepted
        self.outside += urls - in_scope


def _sources(arguments: Sequence[str]) -> list[SeedSource]:
    """The lists of seeds. BadSeed; then no seed of any list is used."""
    if any(part.strip() == "-" for each in arguments for part in each.split(",")):
        raise BadSeed("standard input is not that of the running crawl; give a file")
    sources = [
        SeedSource(each, project_root(), while_running=True) for each in arguments if each.strip()
    ]
    for source in sources:
        source.check()
    return sources
