"""A snapshot of a made-up crawl, and text that tries to break out of where it is shown.

`tests.crawl.test_watching` holds its shape against that of a real crawl.
"""

from __future__ import annotations

from typing import Any

from webcrawl.frontier.counters import STAGES

HOSTILE = [
    'a"b\\c\nd',
    "\\n",
    '"} 1\nwebcrawl_fake 2\n#',
    "\x1b[2J\x1b]0;title\x07",
    "a\rb\tc\x00d\x7f",
    "\u202egnp.exe\u2066",
    "日本語 <script>alert(1)</script>",
    "\udcff lone",
    "{}=,",
    "",
    "x" * 5000,
]


def of_hubs() -> dict[str, Any]:
    """A snapshot of one of three hubs: another one is there, one is away."""
    own = snapshot()
    whole = {
        "hub": 0,
        "elapsed_s": 3723.5,
        "pages_per_s": 175.0,
        "mbps": 24.6,
        "unapplied": 15,
        "counts": {name: 2 * count for name, count in own["counts"].items()},
        "hubs": [
            {"hub": number, "away_since": "2026-11-23T05:00:00Z" if number == 2 else ""}
            for number in range(3)
        ],
    }
    return own | {"whole": whole | {name: own[name] for name in ("drops", "kept", "levels")}}


def snapshot() -> dict[str, Any]:
    counts: dict[str, float] = {
        f"codes/{name}": 0 for name in ("2xx", "3xx", "4xx", "5xx", "other")
    }
    counts |= {"codes/2xx": 180, "codes/4xx": 10, "crawled": 190, "pending": 1_234_567}
    counts |= {"dropped/robots": 3, "dropped/host_cap": 1, "kept/dns": 2, "failed/reset": 4}
    counts |= {
        "refused_access/401_unauthorized": 2,
        "walls/cloudflare": 3,
        "retried/503": 5,
        "robots/2xx": 6,
        "extracted": 200,
        "outage_s": 1.5,
    }
    counts |= {"stage_ended/page": 200, "stage_us/page": 2_500_000, "page_bytes": 4_000_000}
    stages = [
        {"name": name, "under_way": 3, "limit": 512, "per_s": 12.0, "mean_ms": 31.25}
        for name in STAGES
    ]
    return {
        "crawl": "20261123050000-abcdef",
        "spider": "broad",
        "version": "0.1.0",
        "pid": 1,
        "processes": 2,
        "state": "running",
        "time": "2026-11-23T05:05:08.607Z",
        "elapsed_s": 3723.5,
        "target": 0,
        "target_left_s": None,
        "counts": counts,
        "pages_per_s": 87.5,
        "mbps": 12.3,
        "stages": stages,
        "limited_by": {"stage": "politeness", "text": "2 hosts wait for their delay."},
        "hosts": dict.fromkeys(("idle", "parked", "waiting", "deferred", "retired"), 0)
        | {"ready": 1, "snoozed": 2, "leased": 3},
        "drops": {"robots": 3, "host_cap": 1},
        "kept": {"dns": 2},
        "levels": {"found": [*range(1, 11)], "ended": [1] * 10},
        "largest_queues": [{"host": "big.example", "urls": 12_345, "ready_in_s": 3.2}],
        "slowest_hosts": [{"host": "slow.example", "mean_ms": 812.0, "urls": 3}],
        "rss_bytes": {"main": 100_000_000, "process 2": 90_000_000},
        "busy": {"main": 0.25, "process 2": 0.75},
        "disk": {"free_bytes": 80e9, "warc_bytes": 2e6, "jobdir_bytes": 1e6},
    }
