"""`scrapy explain`, `scrapy frontier` and a crawl with the JOBDIR of one of several hubs."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path

import pytest
from scrapy.crawler import Crawler
from scrapy.utils.project import get_project_settings

from webcrawl.cluster.claims import Claim, write_claim
from webcrawl.config.joining import claim
from webcrawl.frontier.base import Policy
from webcrawl.frontier.buckets import hub_of, other_hubs
from webcrawl.frontier.disk.frontier import JobFolder, LocalFrontier
from webcrawl.frontier.lease import Link
from webcrawl.frontier.store import StoreError
from webcrawl.spiders.broad import BroadSpider
from webcrawl.tools.explain.command import Command as Explain
from webcrawl.tools.frontier.command import Command as ShowFrontier

HUB, HUBS = 1, 3


@pytest.fixture
def jobdir(tmp_path: Path) -> Path:
    async def begin() -> None:
        frontier = LocalFrontier(tmp_path, Policy(), partition=other_hubs(HUB, HUBS))
        await frontier.put([Link(url_of(hub), host_of(hub)) for hub in range(HUBS)], 1.0)
        await frontier.close()

    asyncio.run(begin())
    write_claim(tmp_path, Claim("20261123050000-abcdef", HUB, HUBS))
    return tmp_path


def host_of(hub: int) -> str:
    names = (f"{number}.test" for number in range(100))
    return next(name for name in names if hub_of(name, HUBS) == hub)


def url_of(hub: int) -> str:
    return f"http://{host_of(hub)}/"


def explained(jobdir: Path, url: str) -> int:
    command = Explain()
    command.settings = get_project_settings()
    command.run([str(jobdir), url], Namespace())
    return command.exitcode


def test_a_url_of_this_hub_is_explained(jobdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(jobdir, url_of(HUB)) == 0
    assert capsys.readouterr().out.startswith(f"{url_of(HUB)}\n")


def test_of_a_url_of_another_hub_one_line_says_which(
    jobdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explained(jobdir, url_of(2)) == 1
    assert capsys.readouterr().err == (
        f"{url_of(2)} is a URL of hub 2: give the JOBDIR of that hub, or ask while this one runs\n"
    )


def test_the_frontier_says_of_which_hub_it_is(
    jobdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = Namespace(retry=None, set_clock=False, forget=None, export=None)
    ShowFrontier().run([str(jobdir)], options)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Hub 1 of the 3 hubs of 20261123050000-abcdef"
    assert "         1 URLs queued" in lines


def test_a_hub_is_no_crawl_of_its_own(jobdir: Path) -> None:
    """Its links to other hubs would wait for ever."""
    with pytest.raises(StoreError, match="is one of several hubs of a crawl"):
        LocalFrontier(jobdir, refuses_hubs=True)


def claimed(jobdir: Path, hubs: int) -> int:
    settings = get_project_settings()
    chosen = {"CLUSTER": "nats://bus.test", "CLUSTER_HUBS": hubs, "JOBDIR": str(jobdir)}
    settings.setdict(chosen, "cmdline")
    return claim(Crawler(BroadSpider, settings), {})


@pytest.mark.parametrize("hubs", [1, 2])
def test_another_number_of_hubs_is_one_line(
    hubs: int, jobdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert claimed(jobdir, hubs) == 2
    assert capsys.readouterr().err == (
        f"CLUSTER_HUBS = {hubs} cannot be used: 3, with which JOBDIR was begun\n"
    )


def test_a_jobdir_in_use_is_an_error_as_with_one_hub(
    jobdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = JobFolder(jobdir)
    assert claimed(jobdir, HUBS) == 1
    assert capsys.readouterr().err.startswith(f"JOBDIR: {jobdir} is in use by")
    running.close()
