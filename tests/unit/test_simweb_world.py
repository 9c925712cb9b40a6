"""The world: repeatable, connected, and one page under every spelling of its URL."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from random import Random
from urllib.parse import urlsplit

import pytest

from simweb.features import select
from simweb.model import FEATURES, World
from simweb.pagekinds import PAGES, PageKind
from simweb.pages import Page
from simweb.reach import reach
from simweb.robots import ROBOTS, Request, Robots
from simweb.site import Tree
from simweb.spec import Place, WorldSpec
from simweb.survey import Survey, spec
from tests.cases import each_of
from webcrawl.fetch.decode import decode
from webcrawl.fetch.http1 import ResponseReader
from webcrawl.parse.robots import RobotsRules
from webcrawl.parse.urls import canonicalize

CODED = ("robots-chunked", "robots-bomb")  # not sent as plain text


@pytest.fixture(scope="module")
def world() -> World:
    return World(WorldSpec(hosts=300, pages_per_host=10, page_bytes=3000))


def everything(world: World) -> list[Place]:
    return [
        Place(host, page)
        for host in range(world.spec.hosts)
        for page in range(world.host(host).site.size)
    ]


def body_of(world: World, place: Place) -> bytes:
    reply = world.reply(place.host, place)
    assert isinstance(reply.body, tuple)
    return b"".join(reply.body)


class TestTree:
    def test_every_page_of_a_world_without_faults_is_reached_from_one_seed(self) -> None:
        plain = World(WorldSpec(hosts=80, seeds=1, features="none", page_bytes=500))
        assert reach(plain).pages == set(everything(plain))

    def test_every_fetchable_page_is_reached(self, world: World) -> None:
        expected = {
            place
            for place in everything(world)
            if world.host(place.host).open
            and not world.host(place.host).kind.mirror  # of a mirror, only linked pages are reached
            and world.host(place.host).robots.allows(world.target(place))
        }
        assert expected <= reach(world).pages

    @pytest.mark.parametrize("flags", [[1] * 40, [1, 0, 0, 0] * 10, [1] + [0] * 39, [1]])
    def test_every_number_has_one_smaller_sound_parent(self, flags: list[int]) -> None:
        tree = Tree([bool(flag) for flag in flags], fanout=3)
        parents = {child: number for number in range(len(flags)) for child in tree.children(number)}
        assert sorted(parents) == list(range(1, len(flags)))
        assert all(flags[parent] and parent < child for child, parent in parents.items())

    def test_pages_linked_from_disallowed_pages_only_are_not_expected(self, world: World) -> None:
        for place in reach(world).pages:
            host = world.host(place.host)
            assert host.open
            assert host.robots.allows(world.target(place))

    def test_scope_excludes_hosts(self, world: World) -> None:
        hosts = {place.host for place in reach(world, ".br").pages}
        assert {world.names()[host].endswith(".br") for host in hosts} == {True}
        assert len(hosts) < len({place.host for place in reach(world).pages})


class TestPages:
    def test_a_mirror_serves_the_same_bytes(self) -> None:
        world = World(WorldSpec(hosts=100, features="none,host-mirror", menu=5))
        mirrors = [host for host in range(100) if world.host(host).kind.mirror]
        assert mirrors
        for mirror in mirrors:
            original = world.host(mirror).site.host
            assert not world.host(original).kind.mirror
            assert body_of(world, Place(mirror, 0)) == body_of(world, Place(original, 0))
            assert b'href="/' not in body_of(world, Place(mirror, 0)).replace(b'"/s.css"', b"")

    @pytest.mark.parametrize("menu", [0, 30])
    def test_links_in_the_html_are_the_links_that_count(self, menu: int) -> None:
        world = World(WorldSpec(hosts=40, features="none", page_bytes=500, menu=menu))
        for place in everything(world)[:200]:
            hrefs = re.findall(rb'<a [^>]*href="([^"]*)"', body_of(world, place))
            urls = [canonicalize(href.decode(), world.url(place)) for href in hrefs]
            assert urls == [world.url(link) for link in world.outlinks(place)]
            assert len(urls) == world.reply(place.host, place).links
            assert 3 <= len(urls) - menu <= 60

    def test_only_mirrors_have_equal_pages(self, world: World) -> None:
        bodies = Counter(
            body_of(world, place)
            for place in reach(world).documents
            if world.kind(place).name == "page-plain" and not world.host(place.host).kind.mirror
        )
        assert set(bodies.values()) == {1}


class TestKinds:
    """A page kind marked as sound makes a whole document."""

    @each_of("kind", PAGES)
    def test_every_kind_makes_a_reply(self, kind: PageKind) -> None:
        page = Page(
            title="um título",
            number=7,
            step=0,
            attempt=1,
            size_bytes=5000,
            onward="http://a.br/x?de=1&amp;passo=1",
            whole=False,
            hrefs=lambda: ["/a", "/b", "http://c.br/", "/d?de=1&amp;passo=2", "/e"],
        )
        reply = kind.build(page)
        assert reply.end in ("keep", "close", "reset", "hang")
        pieces = [part for part in islice(reply.body, 50) if isinstance(part, bytes)]
        if not kind.sound:
            return
        reader = ResponseReader("GET", 1 << 20, 1 << 24)
        reader.feed(reply.head + b"\r\n" + b"".join(pieces))
        reader.end("eof")
        body = decode(reader.content, reader.headers, 1 << 24).payload
        assert (reader.status, reader.truncated) == (reply.status, "") == (200, "")
        assert b"<title>um t" in body
        assert body.rstrip().endswith(b"</html>")
        assert all(href.strip("/").encode() in body for href in page.hrefs())
        assert reply.links >= 5


class TestFeatures:
    @each_of(
        ("text", "has", "lacks"),
        [
            ("default", "page-404", "page-calendar"),
            ("all", "page-calendar", None),
            ("none", None, "page-404"),
            ("page-404,page-gzip", "page-gzip", "page-410"),
            ("-page-4*", "page-500", "page-404"),
            ("all,-page-404", "page-410", "page-404"),
        ],
    )
    def test_selection(self, text: str, has: str | None, lacks: str | None) -> None:
        chosen = select(text, FEATURES)
        assert has is None or has in chosen
        assert lacks is None or lacks not in chosen

    def test_a_weight_is_given(self) -> None:
        chosen = select("none,page-404=20,page-41*=0.5", FEATURES)
        assert chosen == {"page-404": 20, "page-410": 0.5}


class TestRobots:
    @each_of("kind", ROBOTS)
    def test_the_file_has_the_rules_that_the_ledger_applies(self, kind: object) -> None:
        """By the crawler's own matcher, for the kinds that answer with a file."""
        made: Robots = kind.make(  # type: ignore[attr-defined]
            Request(rng=Random(5), token="webcrawl", delay_s=1.0, elsewhere="http://b.br/x")
        )
        reply = made.replies[-1]
        if reply.status != 200 or kind.name in CODED:  # type: ignore[attr-defined]
            return
        assert isinstance(reply.body, tuple)
        rules = RobotsRules.parse(b"".join(reply.body), "webcrawl")
        world = World(WorldSpec(hosts=8, features="none"))
        for place in everything(world):
            target = world.target(place)
            assert rules.allows(target) == made.allows(target)
        assert (rules.crawl_delay_s or 0) == made.delay_s

    def test_the_longest_rule_wins_and_allow_wins_a_tie(self) -> None:
        robots = Robots(rules=[(False, "/a"), (True, "/a/b"), (False, "/c"), (True, "/c")])
        assert [robots.allows(x) for x in ("/a/x", "/a/b", "/c", "/")] == [False, True, True, True]


class TestSurvey:
    def test_truth(self) -> None:
        survey = Survey(World(spec(2000, seed=1, page_bytes=1000)), 2000)
        lines = list(survey.lines())
        truth = survey.truth()
        assert len(set(lines)) == len(lines) == truth["lines"] == 2000
        assert len({urlsplit(line).netloc for line in lines}) == truth["hosts"]
        assert truth["addresses"] < truth["hosts_in_dns"] < truth["hosts"]
        assert truth["robots_allowed"] < truth["addresses"]
        statuses = [count for name, count in truth.items() if name.startswith("pages_")]
        assert sum(statuses) == truth["robots_allowed"]


class TestRepeatable:
    def test_same_seed_same_world(self, world: World) -> None:
        again = World(world.spec)
        assert again.names() == world.names()
        for place in everything(world)[::50]:
            assert again.url(place) == world.url(place)
            assert again.outlinks(place) == world.outlinks(place)
            assert again.reply(place.host, place).head == world.reply(place.host, place).head
