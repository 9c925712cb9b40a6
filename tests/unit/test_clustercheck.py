"""The checks of CLUSTER before a crawl: one line each, without a secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

import webcrawl.settings
from webcrawl.cluster.agreement.nodefile import NodeFile, write_node
from webcrawl.config.check import check

BUS = "nats://127.0.0.1:4222"


def problems(**values: Any) -> list[str]:
    settings = Settings()
    settings.setmodule(webcrawl.settings)
    settings.update({name: str(value) for name, value in values.items()})
    return check(settings)


def test_a_new_node_and_a_node_that_comes_back_are_right(tmp_path: Path) -> None:
    assert problems(CLUSTER=BUS, JOBDIR=tmp_path) == []
    write_node(tmp_path, NodeFile("n", shards=8))
    (tmp_path / "shards" / "0003" / "frontier").mkdir(parents=True)
    assert problems(CLUSTER=BUS, JOBDIR=tmp_path) == []


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"CLUSTER": "http://user:secret@host"}, "CLUSTER: begins with neither nats:// nor tls://"),
        ({"CLUSTER": "nats://user:secret@host:x"}, "CLUSTER: host 1 of the list is not"),
        ({"CLUSTER": BUS}, "JOBDIR is needed with CLUSTER"),
        ({"CLUSTER": BUS, "CLUSTER_NAME": "a b"}, "CLUSTER_NAME = 'a b' cannot be used"),
    ],
)
def test_a_wrong_setting_is_one_line(values: dict[str, str], line: str) -> None:
    (found,) = problems(**values)
    assert found.startswith(line)
    assert "secret" not in found


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"FRONTIER_STORE": "memory"}, "FRONTIER_STORE = 'memory' cannot be used: 'disk' with"),
        ({"CLUSTER_SHARDS": 4097}, "CLUSTER_SHARDS = 4097 cannot be used: at most 4096"),
    ],
)
def test_a_setting_that_cannot_work_with_several_nodes(
    tmp_path: Path, values: dict[str, Any], line: str
) -> None:
    (found,) = problems(CLUSTER=BUS, JOBDIR=tmp_path, **values)
    assert found.startswith(line)


def test_another_number_of_shards_is_refused(tmp_path: Path) -> None:
    write_node(tmp_path, NodeFile("n", shards=8))
    (line,) = problems(CLUSTER=BUS, JOBDIR=tmp_path, CLUSTER_SHARDS=4)
    assert line == (
        "CLUSTER_SHARDS = 4 cannot be used: the crawl in JOBDIR was begun with 8, which cannot"
        " change"
    )


def test_a_crawl_of_one_machine_is_not_made_a_node(tmp_path: Path) -> None:
    (tmp_path / "frontier").mkdir()
    (line,) = problems(CLUSTER=BUS, JOBDIR=tmp_path)
    assert "has a crawl of one machine" in line
    assert "start it without CLUSTER, or use another JOBDIR" in line


def test_the_folder_of_a_node_needs_cluster(tmp_path: Path) -> None:
    write_node(tmp_path, NodeFile("n", shards=8))
    (line,) = problems(JOBDIR=tmp_path)
    assert "belongs to a node of a crawl on several machines" in line
    shard = tmp_path / "shards" / "0003"
    shard.mkdir(parents=True)
    for values in ({}, {"CLUSTER": BUS}):
        (line,) = problems(JOBDIR=shard, **values)
        assert "is one shard of a crawl on several machines" in line
        assert f"JOBDIR = {str(tmp_path)!r}" in line


def test_shards_without_the_file_that_says_whose_they_are(tmp_path: Path) -> None:
    (tmp_path / "shards" / "0003").mkdir(parents=True)
    (line,) = problems(CLUSTER=BUS, JOBDIR=tmp_path)
    assert "node.json is missing" in line


def test_a_damaged_file_of_a_node_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "node.json").write_text("{")
    (line,) = problems(CLUSTER=BUS, JOBDIR=tmp_path)
    assert "node.json cannot be read" in line
