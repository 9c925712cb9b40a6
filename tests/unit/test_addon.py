"""The add-on's defaults; tests/adapters/test_package.py crawls with it."""

from __future__ import annotations

import pytest
from scrapy.settings import Settings

from webcrawl import Addon


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_running_event_loop_stays(monkeypatch: pytest.MonkeyPatch, is_installed: bool) -> None:
    """ADDONS in a spider's `custom_settings` is read once the reactor is installed."""
    monkeypatch.setattr("scrapy.utils.reactor.is_reactor_installed", lambda: is_installed)
    settings = Settings()
    Addon().update_settings(settings)
    assert settings["ASYNCIO_EVENT_LOOP"] == (None if is_installed else "uvloop.Loop")
    assert settings["SCHEDULER"] == "webcrawl.scheduler.Scheduler"
