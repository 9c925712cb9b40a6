"""Memory: modules that a crawl does not import, and the one heap of all threads."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
from scrapy.exceptions import NotConfigured
from scrapy.extensions import remote_control
from scrapy.utils.test import get_crawler

from webcrawl.extensions.remotecontrol import RemoteControl
from webcrawl.extensions.tuning import OneHeap

ROOT = Path(__file__).parents[2]
LOADED = """
import sys
from scrapy.utils.misc import load_object, walk_modules
from scrapy.utils.project import get_project_settings

settings = get_project_settings()
walk_modules(settings["COMMANDS_MODULE"])
for path in settings.get_component_priority_dict_with_base("EXTENSIONS"):
    load_object(path)
print(*sys.modules)
"""


def test_a_crawl_loads_no_web_server() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "webcrawl.extensions.remotecontrol" in loaded
    assert not loaded & {"aiohttp", "scrapy.extensions.remote_control", "simweb"}


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
    OneHeap.from_crawler(get_crawler())
    assert Library.called[-8] == 1
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())  # a C library without mallopt
    with pytest.raises(NotConfigured):
        OneHeap.from_crawler(get_crawler())
