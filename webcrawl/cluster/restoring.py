"""Makes the JOBDIR of a hub whose machine is lost: from a checkpoint, or empty (`scrapy hub`)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from webcrawl.base.synced import sync
from webcrawl.cluster import claims
from webcrawl.cluster.bus import Bus, Refused
from webcrawl.cluster.checkpoints import NAME, STATE, Found, copy_file, newest
from webcrawl.cluster.claims import Claim, write_claim
from webcrawl.cluster.packets import SILENCE_S, hub_subject
from webcrawl.cluster.records import CRAWL, CrawlRecord, OwnerRecord, read, refuse_other_version
from webcrawl.frontier.disk.folderlock import LOCK
from webcrawl.frontier.disk.frontier import FOLDER, JobFolder
from webcrawl.frontier.store import StoreError

_PART: Final = "restoring"  # in JOBDIR
_CHECK_S: Final = 1.0  # between two looks at a record


async def refuse_if_owned(
    bus: Bus,
    crawl: str,
    hub: int,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Refused if the process that is the hub lives, and renews its record. BusError.

    Takes SILENCE_S if it was killed.
    """
    key = hub_subject(hub)
    owner, before = await read(bus, key, OwnerRecord)
    if owner is None or owner.crawl != crawl:
        return
    for _ in range(0 if owner.is_free else int(SILENCE_S / _CHECK_S)):
        await sleep(_CHECK_S)
        entry = await bus.get(key)
        if entry is None or entry.revision != before:
            raise Refused(f"hub {hub} of the crawl {crawl} runs: stop it first")


async def claim_of(bus: Bus, version: str, hub: int) -> Claim:
    """What a hub is that begins empty in the crawl on the bus. Refused, BusError."""
    crawl, _ = await read(bus, CRAWL, CrawlRecord)
    if crawl is None:
        raise Refused("the bus has no crawl")
    refuse_other_version(crawl, version)
    if crawl.hubs == 1:
        raise Refused("the crawl has one hub, so all is lost: begin it anew, with an empty JOBDIR")
    if not 0 <= hub < crawl.hubs:
        raise Refused(f"the crawl {crawl.id} has the hubs 0 to {crawl.hubs - 1}")
    await refuse_if_owned(bus, crawl.id, hub)
    return Claim(crawl.id, hub, crawl.hubs, has_begun_empty=True)


def find_checkpoint(given: Path) -> Found:
    """The checkpoint in a hub's folder, or the only one in CLUSTER_CHECKPOINTS.

    StoreError, OSError.
    """
    homes = sorted({path.parents[1] for path in given.glob(f"*/[0-9]*/{NAME}")})
    if len(homes) > 1:
        raise StoreError(f"give one of {', '.join(map(str, homes))}")
    found = newest(homes[0] if homes else given)
    if found is None:
        raise StoreError(f"{given} has no checkpoint")
    return found


def refuse_if_used(jobdir: Path) -> None:
    """StoreError unless `jobdir` is new, or has what a killed `restore` or a refused claim left."""
    left = {LOCK, _PART, STATE, claims.NAME, claims.CLAIMANT}
    if jobdir.exists() and {path.name for path in jobdir.iterdir()} - left:
        raise StoreError(f"{jobdir} is not empty")


def make_jobdir(jobdir: Path, claim: Claim, checkpoint: Path | None) -> None:
    """Make `jobdir` for a hub, from the folder of a checkpoint; None: the hub begins empty.

    After a kill, it can be made again. StoreError, OSError.
    """
    refuse_if_used(jobdir)
    part = jobdir / _PART
    with ExitStack() as opened:
        opened.callback(JobFolder(jobdir).close)
        opened.callback(shutil.rmtree, part, ignore_errors=True)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        for name in (STATE, claims.NAME):  # of a call that was killed: perhaps of another hub
            (jobdir / name).unlink(missing_ok=True)
        if checkpoint is not None:
            _copy_back(checkpoint, part)
        if claim.hubs > 1:
            write_claim(part, claim)
        for name in (STATE, claims.NAME, FOLDER):  # the frontier last
            with suppress(FileNotFoundError):
                (part / name).rename(jobdir / name)
        sync(jobdir)
        sync(jobdir.absolute().parent)


def _copy_back(checkpoint: Path, part: Path) -> None:
    (part / FOLDER).mkdir()
    for path in [*(checkpoint / FOLDER).iterdir(), *checkpoint.glob(STATE)]:
        copy_file(path, part / path.relative_to(checkpoint))  # the next checkpoint links it
    sync(part / FOLDER)
