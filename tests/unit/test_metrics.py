"""The snapshot as Prometheus reads it, its page in docs/, and the dashboard in docs/."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.cases import each_of
from tests.unit.snapshots import HOSTILE, of_hubs, snapshot
from webcrawl.live.metrics import LABELS_MAX, exposition

DOCS = Path(__file__).parents[2] / "docs"


def read(value: dict[str, Any]) -> dict[str, Metric]:
    families = list(text_string_to_metric_families(exposition(value).decode()))
    by_name = {family.name: family for family in families}
    assert len(by_name) == len(families), "no metric comes twice"
    return by_name


def values(family: Metric, name: str = "") -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels.values()): sample.value
        for sample in family.samples
        if sample.name.endswith(name)
    }


def test_each_number_has_its_metric() -> None:
    families = read(snapshot())
    assert values(families["webcrawl_pages"]) == {(): 190}
    assert values(families["webcrawl_answers"]) == {
        ("2xx",): 180, ("3xx",): 0, ("4xx",): 10, ("5xx",): 0, ("other",): 0
    }  # fmt: skip
    assert values(families["webcrawl_dropped_urls"]) == {("robots",): 3, ("host_cap",): 1}
    assert values(families["webcrawl_hosts"])[("snoozed",)] == 2
    assert values(families["webcrawl_found_urls"])[("10",)] == 10
    assert values(families["webcrawl_state"]) == {
        ("running",): 1, ("paused",): 0, ("outage",): 0, ("closing",): 0
    }  # fmt: skip
    seconds = families["webcrawl_request_seconds"]
    assert values(seconds, "_sum")[("page",)] == 2.5
    assert values(seconds, "_count")[("page",)] == 200
    assert values(families["webcrawl_resident_memory_bytes"]) == {
        ("main",): 100_000_000, ("process 2",): 90_000_000
    }  # fmt: skip


def test_names_and_types_follow_the_conventions() -> None:
    for family in read(snapshot()).values():
        assert re.fullmatch(r"webcrawl_[a-z_]+", family.name)
        assert family.documentation
        if family.type == "counter":
            assert all(sample.name.endswith("_total") for sample in family.samples)
        else:
            assert not family.name.endswith(("_total", "_sum", "_count"))


def test_no_label_has_a_host() -> None:
    text = exposition(snapshot()).decode()
    assert "big.example" not in text
    assert "slow.example" not in text


@each_of("text", HOSTILE)
def test_hostile_text_stays_within_its_label(text: str) -> None:
    value = snapshot()
    value["counts"][f"dropped/{text}"] = 7
    value["spider"] = text
    families = read(value)
    readable = text.encode("utf-8", "backslashreplace").decode()
    assert values(families["webcrawl_dropped_urls"])[(readable,)] == 7
    (info,) = families["webcrawl_info"].samples
    assert info.labels["spider"] == readable
    assert len(families) == len(read(snapshot()))


def test_a_label_has_a_bounded_number_of_values() -> None:
    value = snapshot()
    value["counts"] |= {f"dropped/scope_{n}": n for n in range(1000)}
    dropped = values(read(value)["webcrawl_dropped_urls"])
    assert len(dropped) == LABELS_MAX
    assert dropped[("more",)] + sum(dropped.values()) - dropped[("more",)] == 4 + sum(range(1000))


def kind_of(name: str, page: str) -> str:
    """As the page says in one sentence, with its one exception."""
    if f"`{name}` a summary, each other one a gauge" in page:
        return "summary"
    return "counter" if name.endswith("_total") else "gauge"


def test_the_page_names_every_metric_with_its_type_and_labels() -> None:
    page = (DOCS / "watching.md").read_text()
    cells = re.findall(r"^\| (`webcrawl_.*?) \|", page, re.MULTILINE)
    metrics = re.findall(r"`(\w+)(?:\{([\w,]+)\})?`", " ".join(cells))
    documented = {
        name.removesuffix("_total"): (kind_of(name, page), {*labels.split(",")} - {""})
        for name, labels in metrics
    }
    served = {
        family.name: (family.type, {label for s in family.samples for label in s.labels} - {"hub"})
        for family in read(of_hubs()).values()
    }
    assert documented == served


def test_with_several_hubs_each_sample_has_its_hub_and_gauges_are_of_all() -> None:
    families = read(of_hubs())
    assert {s.labels["hub"] for family in families.values() for s in family.samples} == {"0"}
    one_hub = read(snapshot())
    assert not any("hub" in s.labels for family in one_hub.values() for s in family.samples)
    of_all = {
        name.removeprefix("webcrawl_"): family.samples[0].value
        for name, family in families.items()
        if name not in one_hub
    }
    assert of_all == {
        "hubs": 3,
        "hubs_away": 1,
        "whole_pages": 380,
        "whole_pending_urls": 2_469_134,
        "whole_pages_per_second": 175.0,
        "whole_unapplied_links": 15,
    }


def test_each_expression_of_the_dashboard_uses_metrics_that_exist() -> None:
    dashboard = json.loads((DOCS / "grafana-dashboard.json").read_text())
    samples = {
        sample.name: set(sample.labels)
        for family in read(snapshot()).values()
        for sample in family.samples
    }
    used = set()
    for panel in dashboard["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            labels: set[str] = set()
            for name, matchers in re.findall(r"(webcrawl_\w+)\{(.*?)\}", target["expr"]):
                assert name in samples, target["expr"]
                labels |= samples[name]
                assert set(re.findall(r"(\w+)[!=]", matchers)) <= samples[name] | {"instance"}
                used.add(name)
            assert target["expr"].count("webcrawl_") == len(
                re.findall(r"webcrawl_\w+\{", target["expr"])
            )
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels
    assert len(used) > 20
    kinds = [variable["type"] for variable in dashboard["templating"]["list"]]
    assert kinds == ["datasource", "query"]


def test_no_two_panels_of_the_dashboard_overlap() -> None:
    panels = json.loads((DOCS / "grafana-dashboard.json").read_text())["panels"]
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)
