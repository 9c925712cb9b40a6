"""All tests of this folder run in virtual time."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.unit.virtualtime import now
from webcrawl.base import executor


@pytest.fixture(autouse=True)
def virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All clocks are the loop's, and threads are calls."""

    def run_at_once(self: Any, job: Any) -> None:
        executor._set_result(executor._run_job(job))

    monkeypatch.setattr(time, "monotonic", now)
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    monkeypatch.setattr(executor, "monotonic", now)
    monkeypatch.setattr(executor.AdaptiveExecutor, "_send", run_at_once)
