"""Calls of a worker or fetcher go at once here; `tests/sim` has them in messages."""

import pytest

from webcrawl.hub import client


@pytest.fixture(autouse=True)
def calls_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "BATCH_S", 0.0)
