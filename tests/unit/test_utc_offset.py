"""The difference between the two clocks: a delay of the earlier run ends after it, not before."""

from __future__ import annotations

import time

import pytest

from webcrawl.config.build import utc_offset_s

HELD_S = [0.003, 0.0, 0.2, 0.0, 0.001]  # between the two clocks, in each of the tries


def test_a_process_that_is_held_between_its_clocks_is_not_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true_s, held_s = 1_800_000_000.0, iter(HELD_S)
    now = [1000.0]

    def utc() -> float:
        now[0] += next(held_s)
        return now[0] + true_s

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "time", utc)
    assert utc_offset_s() == pytest.approx(true_s, abs=1e-6)
