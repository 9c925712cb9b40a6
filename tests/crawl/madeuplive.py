"""Runs the control server on made-up values: `python -m tests.crawl.madeuplive`.

Its host names, URLs and reasons are hostile, `--padding BYTES` makes its snapshots large, and
`--hubs` makes it one of three hubs. It prints the URL of its page, and ends with standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any, cast

from scrapy.utils.reactor import install_reactor

from tests.unit.snapshots import of_hubs
from tests.unit.snapshots import snapshot as made_up

HOSTILE = {
    "tag": "<img src=x onerror=\"document.title='owned'\">",
    "end of script": "</script><script>document.title='owned'</script>",
    "quotes": "\"'`><svg onload=alert(1)>",
    "right to left": "\u202egpj.exe\u2066\u200f",
    "controls": "\x1b[31m\x00\x07\r\x9b\u2028",
    "not a name": "__proto__",
}
TEXT = "".join(HOSTILE.values())


def made_up_crawl(padding: int, *, has_hubs: bool) -> Any:
    from webcrawl.live.livecrawl import LiveCrawl  # noqa: PLC0415  (after the reactor)

    class MadeUp(LiveCrawl):
        """Each snapshot is one page further. Three lines of the log come with each of them."""

        def __init__(self) -> None:
            self.number = 0

        async def snapshot(self) -> bytes:
            self.number += 1
            whole = {"whole": hubs_of(self.number)} if has_hubs else {}
            return encoded(snapshot_of(self.number) | whole | {"padding": "x" * padding})

        def lines(self, seen: int, limit: int) -> tuple[list[bytes], int]:
            last = 3 * self.number
            lines = [line_of(number) for number in range(seen + 1, last + 1)]
            return [encoded(line) for line in lines][-limit:], last

        async def explain(self, text: str) -> list[str]:
            return [text, *HOSTILE.values()]

        async def do(self, order: object, by: str) -> str:
            return f"{TEXT} {json.dumps(order)} {by}"

    return MadeUp()


def encoded(value: object) -> bytes:
    """As a crawl encodes it: only quotes, backslashes and ASCII's controls are escaped."""
    return json.dumps(value, ensure_ascii=False).encode()


def snapshot_of(number: int) -> dict[str, Any]:
    counts = {"crawled": number, "pending": 5, "under_way": 1, "extracted": number, "codes/2xx": 1}
    return made_up() | {
        "spider": TEXT, "version": TEXT, "state": "running", "elapsed_s": number, "target": 900,
        "target_left_s": 60.0, "counts": counts | {f"failed/{TEXT}": 2}, "pages_per_s": number,
        "mbps": 1.5, "processes": 2,
        "stages": [{"name": TEXT, "under_way": 1, "limit": 2, "per_s": 3.0, "mean_ms": 4.0}],
        "limited_by": {"stage": TEXT, "text": f"the limit is {TEXT}"},
        "hosts": {"ready": 1, TEXT: 2}, "drops": {TEXT: 3}, "kept": {TEXT: 4},
        "levels": {"found": [9] * 10, "ended": [1] * 10},
        "largest_queues": [{"host": TEXT * 9, "urls": 12, "ready_in_s": 3.2}],
        "slowest_hosts": [{"host": "x" * 253, "mean_ms": 812.0, "urls": 3}],
        "rss_bytes": {TEXT: 1}, "disk": {"free_bytes": 1, "warc_bytes": 2, "jobdir_bytes": 3},
    }  # fmt: skip


def hubs_of(number: int) -> dict[str, Any]:
    """Three hubs with twice the pages of this one."""
    whole: dict[str, Any] = of_hubs()["whole"]
    counts = {"crawled": 2 * number, "pending": 9}
    return whole | {"counts": counts, "drops": {TEXT: 3}}


def line_of(number: int) -> dict[str, Any]:
    ends = ({"end": "done", "status": 200}, {"end": "dropped", "reason": TEXT}, {"end": "kept"})
    url = f"http://host{number}.example/{TEXT}/{'x' * 2000}"
    return {"time": "2026-11-22T10:00:00.000Z", "kind": "page", "url": url, **ends[number % 3]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--padding", type=int, default=0)
    parser.add_argument("--hubs", action="store_true")
    options = parser.parse_args()
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    from twisted.internet import reactor as installed  # noqa: PLC0415

    from webcrawl.live.access import Access  # noqa: PLC0415
    from webcrawl.live.events import Events  # noqa: PLC0415
    from webcrawl.live.listening import bind_loopback, listen_loopback  # noqa: PLC0415
    from webcrawl.live.server import Server  # noqa: PLC0415

    reactor = cast("Any", installed)

    def start() -> None:
        crawl, bound = made_up_crawl(options.padding, has_hubs=options.hubs), bind_loopback(0)
        access = Access(bound.getsockname()[1], "t" * 43)
        events = Events(crawl)
        server = Server(crawl, events, access)
        listen_loopback(bound, server.factory)
        print(access.url, flush=True)

        async def end() -> None:
            await asyncio.to_thread(sys.stdin.read)
            await events.end("finished")
            await server.close()
            reactor.stop()

        tasks.append(asyncio.ensure_future(end()))

    tasks: list[asyncio.Future[None]] = []
    reactor.callWhenRunning(start)
    reactor.run()


if __name__ == "__main__":
    main()
