"""A frontier whose times are ahead of the machine's clock: how that is found, and set right.

A crawl's time never goes back: it continues from its last commit. So after one run by a clock that
was ahead, all runs have its time. `set_back` is the way out. Times are UTC seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from math import inf
from typing import Final, NamedTuple

from msgspec.structs import replace

from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.hosts import host_row_set_back
from webcrawl.frontier.disk.identity import read_identity, read_numbers
from webcrawl.frontier.disk.seenrows import fingerprint
from webcrawl.frontier.revisit import first_rate
from webcrawl.frontier.store import StoreError
from webcrawl.frontier.visitstate import VisitState

_AHEAD_MAX_S: Final = 300.0  # a clock that was corrected, by NTP or by hand, is ahead for so long
_COMMIT_ROWS: Final = 10_000  # changed between two commits: they are held in memory


class Correction(NamedTuple):
    """A clock was ahead by `ahead_s`; now it is `now`.

    The last commit was made now or before. So a time after it stays as long after it, and no wait
    gets shorter. `age_s`: of the crawl; `cycle_s`: RECRAWL_CYCLE.
    """

    now: float
    ahead_s: float
    age_s: float
    cycle_s: float

    def of(self, time: float) -> float:
        """`time`, set back if it is in the future."""
        return time if time <= self.now else time - self.ahead_s

    def set_back(self, state: VisitState) -> None:
        """Set the last visit back, and forget a rate that was learned from the jump of the clock:
        from a time without a change that is longer than the crawl."""
        state.last_at = self.of(state.last_at)
        if state.rate.seconds > self.age_s + self.cycle_s:
            state.rate = first_rate(self.cycle_s)


def utc(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock_warning(last_time: float, now: float) -> list[str]:
    """A line for the user if `last_time`, of the last commit, is ahead of the clock; or none."""
    if last_time - now <= _AHEAD_MAX_S:
        return []
    line = (
        f"The last commit of this crawl was at {utc(last_time)}, and this machine's clock says"
        f" {utc(now)}. The crawl goes on from the later time. If the clock is right now, stop the"
        " crawl and set its times back: scrapy frontier JOBDIR --set-clock"
    )
    return [line]


def set_back(db: Database, now: float) -> str:
    """Set all times of the frontier in `db` back that are ahead of the clock. A line on it.

    A kill on the way loses nothing: the next call does the rest. O(hosts + queued URLs + pages to
    visit again), some µs each. StoreError.
    """
    identity, numbers = read_identity(db), read_numbers(db)
    if identity is None or numbers is None:
        raise StoreError(f"{db.folder} is no frontier: it is empty")
    last_time = numbers.get("utc", 0.0)
    if last_time <= now:
        return f"No time is ahead: the last commit was at {utc(last_time)}"
    begun = datetime.fromisoformat(identity["created"]).timestamp()
    age_s = now - begun if begun < now else inf  # else the clock was ahead from the beginning
    cycle_s = numbers.get("visits", {}).get("cycle_s", 0.0)
    correction = Correction(now, last_time - now, age_s, cycle_s)
    count = 0
    for _ in _changes(db, identity["seen_key"], correction):
        count += 1
        if count % _COMMIT_ROWS == 0:
            db.commit()
    numbers |= {"utc": now, "began": correction.of(numbers.get("began", 0.0))}
    db.put(rows.NUMBERS, json.dumps(numbers).encode())  # last: until then a second call finds it
    db.commit()
    return (
        f"The time of this crawl was {utc(last_time)} and is {utc(now)}: {count:,} rows of hosts"
        " and pages are set back"
    )


def _changes(db: Database, seen_key: int, correction: Correction) -> Iterator[None]:
    """Change each row that has a time ahead. Kept links have none: the next run tries them."""
    for key, row in db.rows(rows.HOST):
        changed = host_row_set_back(row, correction.now, correction.of)
        if changed != row:
            db.put(key, changed)
            yield
    for key, row in db.rows(rows.QUEUE):
        link = rows.read_link(row)
        if link.visit:
            state = VisitState.of_row(link.visit)
            if state.last_at > correction.now:
                correction.set_back(state)
                db.put(key, rows.encode(replace(link, visit=state.to_row())))
                yield
    for key, row in db.rows(rows.VISIT):
        if _set_visit_back(db, key, row, seen_key, correction):
            yield


def _set_visit_back(
    db: Database, key: bytes, row: bytes, seen_key: int, correction: Correction
) -> bool:
    """Set a page between two visits back, if a clock that was ahead has planned its visit."""
    url, state_row = rows.read_visit(row)
    state, due = VisitState.of_row(state_row), rows.visit_time(key) / 1000
    if state.last_at <= correction.now and due <= correction.now + correction.ahead_s:
        return False
    correction.set_back(state)
    due_ms = round(correction.of(due) * 1000)
    mark = fingerprint(url, seen_key)
    seen = db.get(rows.SEEN + mark)
    status = rows.read_status(seen) if seen else None
    if status is None:  # no time finds the page: a row that is damaged
        return False
    status = replace(status, time=correction.of(status.time), visit_ms=due_ms)
    db.delete(key)
    db.put(rows.visit_key(due_ms, mark), rows.encode((url, state.to_row())))
    db.put(rows.SEEN + mark, rows.encode(status))
    return True
