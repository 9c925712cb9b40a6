"""Which process is which hub: records on the bus, changed by compare-and-set.

- `crawl`: its ID, version, the hash of its settings, the number of hubs, the reason of its end,
  and whether a user has stopped it
- `hub.K`: the process that owns hub K

The hub renews its record with each `check`, and serves only until SILENCE_S after the last renewal
began. It waits SILENCE_S and the longest fetch before it serves, if another owner may still fetch:
after a kill, a take-over, or a loss of the records. A record that is lost, or cannot be read, is
written again; one of another owner ends this hub.

| the bus has | so the hub of crawl A |
| --- | --- |
| nothing, and A is new | begins |
| nothing, and A is resumed | waits, then serves: fetchers of the last run may be about |
| A, and its owner has ended cleanly | serves at once |
| A, and its owner has not | takes over and waits, then serves |
| A with an end | takes the end back |
| crawl B, whose owner has ended cleanly | takes its place |
| crawl B, whose owner renews nothing for SILENCE_S | takes its place and waits |
| crawl B, whose owner renews its record | is refused |

With several hubs, "owner" of crawl B is that of any of its hubs. All hubs of a crawl have the same
version and settings: crawl A with others is treated as crawl B.
"""

from __future__ import annotations

import logging
from math import inf
from typing import Annotated, Final, TypeVar

from msgspec import DecodeError, Meta, Struct, json
from msgspec.structs import replace

from webcrawl.base.wording import printable
from webcrawl.cluster.bus import Bus, Refused
from webcrawl.cluster.packets import SILENCE_S, hub_subject, untrusted
from webcrawl.cluster.streams import Clock
from webcrawl.frontier.buckets import HUBS_MAX

logger = logging.getLogger(__name__)

CRAWL = "crawl"
STOPPED: Final = "shutdown"  # by `scrapy ctl stop`
T = TypeVar("T")


class CrawlRecord(Struct, frozen=True):
    """The crawl on the bus."""

    version: str  # of webcrawl
    id: str
    settings: str  # their hash
    hubs: Annotated[int, Meta(ge=1, le=HUBS_MAX)] = 1
    end: str = ""  # why it has ended; "" while it has not
    is_stopped: bool = False  # by a user, in all hubs; each hub that begins takes it back


class OwnerRecord(Struct, frozen=True):
    """The process that is the hub.

    owner -- a name that no other process has; of a hub that was only claimed, see `claims`
    is_free -- it has ended, and no fetcher of it fetches any more
    """

    crawl: str
    owner: str
    is_free: bool = False


def refuse_other_version(crawl: CrawlRecord, version: str) -> None:
    """Refused unless the crawl on the bus is crawled with this `version` of webcrawl."""
    if crawl.version != version:
        line = f"the crawl {crawl.id} on this bus is crawled with webcrawl {crawl.version}, and"
        raise Refused(printable(f"{line} this is {version}: run the same version on all machines"))


async def read(bus: Bus, key: str, kind: type[T]) -> tuple[T | None, int]:
    """The record and its revision; None for one that is missing, or cannot be read. BusError."""
    entry = await bus.get(key)
    if entry is None:
        return None, 0
    try:
        return untrusted(json.Decoder(kind).decode)(entry.value), entry.revision
    except DecodeError:
        return None, entry.revision


class Ownership:
    """This process's claim on the hub.

    end_elsewhere -- why the crawl has ended, as another hub has written while this one ran;
        STOPPED: its user has stopped it
    pause_s -- SILENCE_S and the longest fetch
    is_new -- the crawl begins with this run
    number -- of the hub
    """

    def __init__(
        self,
        bus: Bus,
        crawl: CrawlRecord,
        owner: str,
        *,
        pause_s: float,
        is_new: bool,
        clock: Clock,
        number: int = 0,
    ) -> None:
        self.end_elsewhere = ""
        self._bus = bus
        self._crawl = crawl
        self._key = hub_subject(number)
        self._mine = OwnerRecord(crawl.id, owner)
        self._has_owned = False
        self._revision = 0  # of the owner's record with `_mine`; 0: not claimed
        self._pause_s = pause_s
        self._must_wait = not is_new  # before the next claim serves
        self._serves_from = -inf  # a pause that has begun is not cut short
        self._clock = clock
        # Revisions of the other crawl's owners, and when they were first seen.
        self._foreign: tuple[list[int], float] | None = None

    def __repr__(self) -> str:
        return f"<Ownership of {self._crawl.id}{', claimed' if self._revision else ''}>"

    async def check(self) -> float:
        """Claim or renew. Until when this process may serve: a time in the past if it may not.

        BusError: the time that the last call has returned stands. Refused: this process must end.
        """
        now = self._clock()
        if not await self._renews():
            await self._claim(now)
        may = self._revision and now >= self._serves_from
        return now + SILENCE_S if may else -inf

    async def end(self, reason: str, *, is_free: bool) -> None:
        """This process ends. `reason` is that of the crawl's end; "": another run resumes it."""
        if not self._revision:
            return
        if reason:
            self._crawl = replace(self._crawl, end=reason)
            await self._put_crawl((await read(self._bus, CRAWL, CrawlRecord))[1])
        owner = replace(self._mine, is_free=is_free)
        await self._bus.put(self._key, json.encode(owner), self._revision)

    async def _renews(self) -> bool:
        if not self._revision or not await self._has_crawl():
            return False
        revision = await self._bus.put(self._key, json.encode(self._mine), self._revision)
        self._revision = revision or 0
        return revision is not None

    async def _has_crawl(self) -> bool:
        found, _ = await read(self._bus, CRAWL, CrawlRecord)
        if found is None or self._is_foreign(found):
            return False
        self.end_elsewhere = found.end or (STOPPED if found.is_stopped else "")
        return True

    async def stop(self) -> None:
        """A user stops the crawl here: hubs that are away shall know. BusError."""
        found, revision = await read(self._bus, CRAWL, CrawlRecord)
        if found == self._crawl:
            stopped = json.encode(replace(found, is_stopped=True))
            await self._bus.put(CRAWL, stopped, revision)

    async def _claim(self, now: float) -> None:
        crawl, revision = await read(self._bus, CRAWL, CrawlRecord)
        found, owned = await read(self._bus, self._key, OwnerRecord)
        if crawl is None or not self._is_foreign(crawl):
            self._foreign = None
        elif not await self._may_replace(crawl, now):
            return
        if crawl is not None and crawl.id != self._crawl.id:
            self._must_wait = found is None or not found.is_free
        elif found is not None and found.crawl == self._crawl.id:
            if found.owner != self._mine.owner and self._has_owned:
                raise Refused(
                    f"another process has taken over the crawl {self._crawl.id}: two have copies of"
                    " its JOBDIR, and this one ends"
                )
            self._must_wait = not found.is_free and found.owner != self._mine.owner
        elif self._has_owned:
            self._must_wait = True  # the records are lost
        if crawl != self._crawl and not await self._put_crawl(revision):
            return  # another process was faster
        taken = await self._bus.put(self._key, json.encode(self._mine), owned)
        if taken is None:
            return
        self._revision, self._has_owned = taken, True
        if self._must_wait:
            self._serves_from = now + self._pause_s
            logger.info("The hub serves in %.0f s: fetchers may still fetch", self._pause_s)

    def _is_foreign(self, crawl: CrawlRecord) -> bool:
        if self._crawl.hubs == 1:
            return crawl.id != self._crawl.id
        return replace(crawl, end="", is_stopped=False) != replace(self._crawl, end="")

    async def _may_replace(self, crawl: CrawlRecord, now: float) -> bool:
        """Whether nobody runs the other `crawl`. Refused if somebody does."""
        if crawl.end:
            return True
        owners = [await self._bus.get(hub_subject(number)) for number in range(crawl.hubs)]
        owned = [owner.revision if owner is not None else 0 for owner in owners]
        revisions, seen_at = self._foreign = self._foreign or (owned, now)
        if revisions != owned:
            if (await read(self._bus, CRAWL, CrawlRecord))[0] != crawl:
                return False  # another hub of this crawl has just replaced it
            runs = f"the crawl {printable(crawl.id)} runs on this bus"
            if crawl.id == self._crawl.id:
                raise Refused(
                    f"{runs} with other settings, another version or other arguments of the spider:"
                    " set the same"
                )
            raise Refused(
                f"{runs}: without JOBDIR this machine fetches for it; another crawl needs another"
                " name, as in CLUSTER=nats://HOST/NAME"
            )
        return now >= seen_at + SILENCE_S

    async def _put_crawl(self, revision: int) -> bool:
        return await self._bus.put(CRAWL, json.encode(self._crawl), revision) is not None
