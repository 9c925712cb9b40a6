"""Crawls with several hubs that are steered, ended and resumed, on a real bus."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from simweb import Running, faults
from tests.contracts.natsserver import NatsServer
from tests.crawl.crawling import Result, assert_clean
from tests.crawl.steered import Steered
from tests.forked import running
from tests.unit.snapshots import of_hubs
from webcrawl.live.client import ask

pytestmark = pytest.mark.slow
WORLD = (
    *("--seed", "6", "--hosts", "16", "--seeds", "16", "--pages-per-host", "8", "--menu", "3"),
    *("--features", "none,page-404,page-gzip", "--ip-delay", "0", "--host-delay", "0.3"),
)
PAUSE_S = 1.5


def hubs(folder: Path, bus: NatsServer, web: Running, **settings: Any) -> list[Steered]:
    """Hub 0 and hub 1, with a session between them."""
    started = []
    for name in "ab":
        started.append(start(folder / name, bus, web, **settings))
        job = folder / name / "job"
        started[-1].until_true(lambda job=job: (job / "hub.json").exists())  # type: ignore[misc]
    started.sort(key=lambda each: json.loads((each.jobdir / "hub.json").read_text())["number"])
    for each in started:
        each.until("A session with hub")
    return started


def start(folder: Path, bus: NatsServer, web: Running, **settings: Any) -> Steered:
    chosen = {"CLUSTER": bus.url, "CLUSTER_HUBS": 2, "IP_DELAY": 0, "DOWNLOAD_DELAY": 0.3}
    return Steered(folder, web=web, **(chosen | settings))


def assert_ended(*results: Result) -> None:
    for result in results:
        assert_clean(result)


def explained(hub: Steered, url: str) -> list[str]:
    answer = ask(hub.jobdir, "GET", f"/explain?url={url}")
    assert isinstance(answer, dict)
    return list(answer["lines"])


def assert_shown(*each_hub: Steered) -> None:
    """Each hub shows both, in the shape of the made-up snapshot."""
    for number, hub in enumerate(each_hub):
        snapshot = ask(hub.jobdir, "GET", "/snapshot")
        assert isinstance(snapshot, dict)
        whole = snapshot["whole"]
        assert whole.keys() == of_hubs()["whole"].keys()
        assert whole["hubs"][0].keys() == of_hubs()["whole"]["hubs"][0].keys()
        assert whole["hub"] == number
        assert whole["counts"]["crawled"] >= snapshot["counts"]["crawled"]
        assert [each["away_since"] for each in whole["hubs"]] == ["", ""]
        assert "webcrawl_hubs{" in str(ask(hub.jobdir, "GET", "/metrics"))


def test_a_command_holds_for_all_hubs_and_one_that_leaves_is_waited_for(
    tmp_path: Path, bus: NatsServer
) -> None:
    with running(*WORLD) as web:
        first, other = hubs(tmp_path, bus, web)
        other.after(10)
        said = other.ctl("pause")
        assert said.startswith("all 2 hubs: paused: no request is sent until resume"), said
        paused_at = other.servers_time()
        denied = web.seeds[-1].split("/")[2].split(":")[0]
        assert first.ctl("deny", denied).startswith("all 2 hubs: 1 entry added: ")
        assert "not a regular expression" in other.refusal("deny", "re:((((")
        time.sleep(PAUSE_S)
        assert first.requests_since(paused_at) == []
        assert other.ctl("status").startswith("all 2 hubs: ")
        assert_shown(first, other)
        for url in web.seeds[:4]:
            lines = [explained(each, url) for each in (first, other)]
            assert sorted(len(each) - len(min(lines, key=len)) for each in lines) == [0, 1]
            assert max(lines, key=len)[-1] in ("Of hub 0.", "Of hub 1.")
        assert other.ctl("resume") == "all 2 hubs: resumed"
        other.until_true(lambda: len(other.requests_since(paused_at)) > 5)

        first.interrupt()
        assert_ended(first.wait())
        other.until("The session with hub 0 has ended")
        assert "1 of 2 hubs (hub 0 is away since 20" in other.ctl("status")
        assert "hub 0 does not answer" in other.refusal("pause")
        other.until("this hub waits for 1 hub (0)")
        back = start(first.folder, bus, web)
        back.until(f"steering: deny {denied}, from ")
        results = back.wait(), other.wait()
        assert_ended(*results)
        assert not [url for url in other.requests_since(paused_at) if url.startswith(denied)]
        assert [line for line in faults(web.ledger()) if " pages missing" not in line] == []
    for result in results:
        whole = result.report["whole"]
        for name in ("crawled", "extracted", "links", "page_bytes"):
            assert whole["counts"][name] == sum(r.report["counts"][name] for r in results)
        assert [each["away_since"] for each in whole["hubs"]] == ["", ""]


def test_a_stop_ends_all_hubs_and_the_target_is_that_of_all_runs(
    tmp_path: Path, bus: NatsServer
) -> None:
    with running(*WORLD) as web:
        # So slow that the target is not met before the command comes, on a busy machine.
        target = {"CLOSESPIDER_PAGECOUNT": 60, "DOWNLOAD_DELAY": 1}
        first, other = hubs(tmp_path, bus, web, **target)
        other.after(10)
        assert other.ctl("stop").startswith("all 2 hubs: stopping: ")
        assert_ended(first.wait(), other.wait())
        folders = first.folder, other.folder
        again = [start(folder, bus, web, **target) for folder in folders]
        results = [each.wait() for each in again]
        assert_ended(*results)
        assert sum(result.report["counts"]["crawled"] for result in results) == 60
        assert len({result.report["crawl"] for result in results}) == 1
        assert [line for line in faults(web.ledger()) if " pages missing" not in line] == []
