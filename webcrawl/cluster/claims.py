"""Which hub of its crawl a process with JOBDIR is: it claims a number on the bus, and keeps it.

With several hubs, the number decides which hosts a frontier has. So it is claimed before the
frontier is opened, once, and stays in `hub.json` in JOBDIR. The first claim also gives the crawl
its ID. `records` takes over from there.

The record of a claim has a name that JOBDIR keeps. So a process that dies between claim and
`hub.json` claims the same number again in its next run, and no other machine does.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final
from uuid import uuid4

from msgspec import DecodeError, Struct, json

from webcrawl.base.synced import replace_file
from webcrawl.base.wording import printable
from webcrawl.cluster.bus import Bus, Refused
from webcrawl.cluster.packets import hub_subject
from webcrawl.cluster.records import (
    CRAWL,
    CrawlRecord,
    OwnerRecord,
    read,
    refuse_other_version,
)

NAME: Final = "hub.json"  # in JOBDIR
CLAIMANT: Final = "hub.claimant"  # there too: the name under which it claims
WIPED_S: Final = 3.0  # a hub that lives has written a lost record again


class Claim(Struct, frozen=True):
    """Hub `number` of the `hubs` hubs of a crawl.

    crawl -- its ID
    has_begun_empty -- in the place of an earlier hub, which is lost
    """

    crawl: str
    number: int
    hubs: int
    has_begun_empty: bool = False


class ClaimError(Exception):
    """`hub.json` cannot be used: one line."""


def read_claim(jobdir: Path) -> Claim | None:
    """The claim that is kept in JOBDIR; None if there is none. ClaimError."""
    path = jobdir / NAME
    try:
        claim = json.decode(path.read_bytes(), type=Claim)
    except FileNotFoundError:
        return None
    except (OSError, DecodeError) as error:
        raise ClaimError(f"{path} cannot be read: {error}") from None
    if not 0 <= claim.number < claim.hubs:
        raise ClaimError(f"{path} cannot be used: there is no hub {claim.number} of {claim.hubs}")
    return claim


def write_claim(jobdir: Path, claim: Claim) -> None:
    """Keep `claim` in JOBDIR. After a loss of power it is there, or the file is not. ClaimError."""
    try:
        replace_file(jobdir / NAME, json.encode(claim))
    except OSError as error:
        raise ClaimError(f"{jobdir / NAME} cannot be written: {error.strerror}") from None


def claimant_of(jobdir: Path) -> str:
    """The name under which JOBDIR claims, the same in each run and no other's. ClaimError."""
    path = jobdir / CLAIMANT
    try:
        if not path.exists():
            replace_file(path, uuid4().hex.encode())
        return path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ClaimError(f"{path} cannot be used: {error}") from None


async def claim_number(bus: Bus, wanted: CrawlRecord, claimant: str) -> Claim:
    """Claim the lowest number without an owner, for a new JOBDIR. BusError, Refused.

    `wanted` is the crawl as this process would begin it, with an ID that no crawl had before;
    `claimant` is a name that no other JOBDIR has.
    """
    crawl = await _join(bus, wanted)
    for number in range(crawl.hubs):
        found, revision = await read(bus, hub_subject(number), OwnerRecord)
        if found is not None and found.crawl == crawl.id and found.owner != claimant:
            continue
        mine = json.encode(OwnerRecord(crawl.id, claimant, is_free=True))
        if await bus.put(hub_subject(number), mine, revision) is not None:
            return Claim(crawl.id, number, crawl.hubs)
    raise Refused(
        f"all {crawl.hubs} hubs have owners: without JOBDIR this machine fetches for them. In the"
        " place of one that is lost: scrapy hub"
    )


async def _join(bus: Bus, wanted: CrawlRecord) -> CrawlRecord:
    """The crawl on the bus; `wanted`, if there is none. BusError, Refused."""
    has_waited = False
    while True:
        found, revision = await read(bus, CRAWL, CrawlRecord)
        if found is None and not has_waited:
            has_waited = True
            await asyncio.sleep(WIPED_S)
        elif found is None or found.end:
            if await bus.put(CRAWL, json.encode(wanted), revision) is not None:
                return wanted
        else:
            _check(found, wanted)
            return found


def _check(found: CrawlRecord, wanted: CrawlRecord) -> None:
    """Refused if this process cannot be a hub of the crawl on the bus."""
    refuse_other_version(found, wanted.version)
    crawl = f"the crawl {found.id} on this bus"
    if found.hubs != wanted.hubs:
        line = f"{crawl} has CLUSTER_HUBS={found.hubs}, and this process {wanted.hubs}"
        raise Refused(printable(f"{line}; another crawl needs another name in CLUSTER"))
    if found.settings != wanted.settings:
        line = f"{crawl} has other settings, or other arguments of the spider: set the same"
        raise Refused(printable(f"{line}; another crawl needs another name in CLUSTER"))
