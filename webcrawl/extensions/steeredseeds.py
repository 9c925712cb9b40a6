"""Adds seeds to a running crawl: the command `seeds` of `extensions.steering`."""

from __future__ import annotations

from collections import Counter
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
    counts: Counter[str] = Counter()
    try:
        for source in await in_daemon(partial(_sources, arguments)):
            async for urls in portions(source):
                if is_ending():
                    said = _said(counts, has_caps)
                    raise SteeringError(f"the crawl is ending: {said}; the rest is lost")
                accepted, in_scope = await scheduler.put_seeds(urls)
                counts["added"] += accepted
                counts["known"] += in_scope - accepted
                counts["outside"] += len(urls) - in_scope
            counts["bad"] += source.bad
    except BadSeed as error:
        raise SteeringError(f"no seed is added: {error}") from None
    except CloseSpider:
        said = _said(counts, has_caps)
        raise SteeringError(f"the frontier failed: {said}; the rest is lost") from None
    finally:
        scheduler.holds -= 1
        scheduler.wake()
    return _said(counts, has_caps)


def _said(counts: Counter[str], has_caps: bool) -> str:
    """What came of seeds, as text."""
    known = "known or over a cap" if has_caps else "known"
    return (
        f"{counted(counts['added'], 'seed')} added, {counts['known']:,} {known},"
        f" {counts['outside']:,} out of scope, {counts['bad']:,} not a URL"
    )


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
