"""The parts of a crawl that save memory: no web server unless it is asked for, and one heap."""

from __future__ import annotations

import ctypes

import pytest
from scrapy.exceptions import NotConfigured
from scrapy.extensions import remote_control
from scrapy.utils.test import get_crawler

from webcrawl.extensions.remotecontrol import RemoteControl
from webcrawl.extensions.tuning import MemoryTuning


def test_remote_control_is_scrapys_if_switched_on() -> None:
    with pytest.raises(NotConfigured):
        RemoteControl.from_crawler(get_crawler(settings_dict={"REMOTE_CONTROL_ENABLED": False}))
    chosen = {"REMOTE_CONTROL_ENABLED": True, "TWISTED_REACTOR_ENABLED": False}
    made = RemoteControl.from_crawler(get_crawler(settings_dict=chosen))
    assert type(made) is remote_control.RemoteControl


def test_all_threads_have_one_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        called: dict[int, int] = {}

        def mallopt(self, option: int, value: int) -> int:
            self.called[option] = value
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library())
    MemoryTuning.from_crawler(get_crawler())
    assert Library.called[-8] == 1
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())  # a C library without mallopt
    MemoryTuning.from_crawler(get_crawler())
