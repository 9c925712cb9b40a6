"""counters: what was added from call to call."""

from __future__ import annotations

from webcrawl.frontier.counters import Counters, Tracked
from webcrawl.report.lines import summary


def test_changes_are_the_differences_since_the_last_call() -> None:
    counters = Counters(crawled=3)
    counters.codes["2xx"] = 3
    tracked = Tracked(counters)
    assert tracked.changes() == {}
    before = counters.to_dict()
    counters.count_code(200)
    counters.count_code(404)
    counters.fetch_s += 0.5
    counters.pending -= 7
    changes = tracked.changes()
    assert changes == {
        "crawled": 2, "codes": {"2xx": 1, "4xx": 1}, "fetch_s": 0.5, "pending": -7,
    }  # fmt: skip
    theirs = Counters()
    theirs.restore(before)
    theirs.add(changes)
    assert theirs == counters
    assert tracked.changes() == {}


def test_bot_walls_are_counted_by_service() -> None:
    counters = Counters()
    for status, wall in ((200, "akamai"), (403, "cloudflare"), (403, "cloudflare"), (403, "")):
        counters.count_code(status, wall)
    assert counters.codes == {"2xx": 1, "4xx": 3}
    assert summary(counters, 1.0)[-1] == (
        "Bot walls in the place of pages: 3 (cloudflare 2, akamai 1)"
    )


def test_answers_by_which_owners_refuse_access_are_counted_by_name() -> None:
    counters = Counters()
    for status in (401, 402, 403, 451, 451):
        counters.count_code(status)
    assert counters.codes == {"4xx": 5}
    assert counters.refused_access == {
        "401_unauthorized": 1,
        "402_payment_required": 1,
        "451_unavailable_for_legal_reasons": 2,
    }
    assert summary(counters, 1.0)[-1] == (
        "Refused access: 401 unauthorized = 1, 402 payment required = 1,"
        " 451 unavailable for legal reasons = 2"
    )
