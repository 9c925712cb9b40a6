"""A real bus for crawls on several machines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.natsserver import NatsServer


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "bus") as server:
        yield server
