"""The calls of functions per page have not grown: the gauge of `python -m benchmarks calls`."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import calls
from benchmarks.crawls import NotDone


def test_a_page_makes_no_more_calls() -> None:
    """A commit that makes a page dearer records the figures (`--write`), and says why."""
    try:
        before = calls.recorded()
    except NotDone as reason:
        pytest.skip(str(reason))
    problem = calls.growth(calls.counted(), before)
    assert not problem, f"{problem}\nRecord them: python -m benchmarks calls --write"


def test_growth_names_the_functions() -> None:
    before = {"deep": Counter({"all": 1000, "a.py f": 20, "a.py g": 30})}
    now = {"deep": Counter({"all": 1021, "a.py f": 39, "a.py g": 32, "a.py h": 1})}
    assert calls.growth(now, before) == (
        "deep: 1021.0 calls a page, where 1000.0 are recorded\n  +19.0 a.py f\n  +2.0 a.py g"
    )
    now["deep"]["all"] = 1020
    assert not calls.growth(now, before)
