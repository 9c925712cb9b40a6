"""The ledger: each rule is tested with a violation and with a request that just keeps it."""

from __future__ import annotations

from datetime import datetime

from simweb.ledger import VIOLATIONS, Ledger, Rules, faults
from simweb.model import World
from simweb.reply import Reply, answer
from simweb.spec import SITEMAP_PAGE, Place, WorldSpec
from tests.cases import each_of


class Crawl:
    """Reports requests to the ledger as a server does. The test sets the time."""

    def __init__(self, features: str = "none", hosts: int = 20, **rules: object) -> None:
        self.world = World(WorldSpec(hosts=hosts, features=features, host_delay_s=1.0, ips=hosts))
        self.ledger = Ledger(self.world, Rules(host_delay_s=1.0, **rules))  # type: ignore[arg-type]
        self.now = 100.0

    def ask(
        self,
        host: int,
        target: str,
        after_s: float = 10.0,
        method: str = "GET",
        secure: bool = False,
    ) -> int:
        """The number of the attempt."""
        self.now += after_s
        name = self.world.names()[host]
        addresses = self.world.host(host).dns.addresses
        ip = addresses[0] if addresses else "127.99.0.1"
        _, place, attempt = self.ledger.asked(self.now, name, ip, method, target, secure=secure)
        reply = self.world.reply(host, place, attempt)
        self.ledger.answered(place, method, reply, 100, whole=reply.end != "hang")
        return attempt

    def found(self) -> set[str]:
        violations = self.ledger.report()["violations"]
        return {name for name, found in violations.items() if found["count"]}

    def host_with(self, robots: str) -> int:
        hosts = range(self.world.spec.hosts)
        rows = self.world._robots.rows
        return next(host for host in hosts if rows[self.world._robots_of[host]].name == robots)

    def page_with(self, kind: str) -> Place:
        return next(
            Place(host, page)
            for host in range(self.world.spec.hosts)
            for page, found in enumerate(self.world.host(host).site.kinds)
            if found.name == kind
        )


ROBOTS, SLOWLY = ("/robots.txt", 9.0), 9.0
PAGE, ON = ("{page}", SLOWLY), ("{on}", SLOWLY)
DELAY, MOST = "none,robots-crawl-delay", {"crawl_delay_max_s": 60.0}
BUSY = "none,page-503=50"  # such pages send Retry-After: 2
FAILURES = ("page-500", "page-429", "page-reset", "page-hang", "page-long")
# By title: features of the web, rules of the ledger, requests with the seconds since the one
# before, and what the ledger finds in them. They are at a host or a page of the last feature;
# {page} is this page, {on} the one that it leads to.
CASES = {
    "polite": ("none", {}, [ROBOTS, ("/", 1.0), ("{page}", 1.0)], ""),
    "a host's delay": ("none", {}, [ROBOTS, ("/", 0.999)], "early_host"),
    "the tolerance": ("none", {"tolerance_s": 0.01}, [ROBOTS, ("/", 0.995)], ""),
    "Crawl-delay": (DELAY, MOST, [ROBOTS, ("/", 1.5)], "early_host"),
    "its maximum": (DELAY, {"crawl_delay_max_s": 1.0}, [ROBOTS, ("/", 1.5)], ""),
    "Crawl-delay, from its answer on": (DELAY, {}, [ROBOTS, ("/robots.txt", 1.5)], "early_host"),
    "Crawl-delay, not before": (DELAY, {}, [("/nada", 9.0), ("/robots.txt", 1.5)], "invented"),
    "Retry-After": (BUSY, {}, [ROBOTS, PAGE, ("/", 1.5)], "early_retry"),
    "Retry-After is over": (BUSY, {}, [ROBOTS, PAGE, ("/", 2.0)], ""),
    "disallowed": ("none,robots-disallow-all", {}, [ROBOTS, PAGE], "disallowed"),
    "unreachable rules": ("none,robots-error", {}, [ROBOTS, PAGE], "disallowed"),
    "before robots.txt": ("none", {}, [PAGE, ROBOTS], "before_robots"),
    **{
        f"twice as {spelling}": ("none", {}, [ROBOTS, PAGE, (spelling, SLOWLY)], "twice")
        for spelling in ("{page}", "/.{page}", "{page};jsessionid=1")
    },
    **{f"again after {kind}": (f"none,{kind}", {}, [ROBOTS, PAGE, PAGE], "") for kind in FAILURES},
    "again after the first try of a flaky page": ("none,page-flaky", {}, [ROBOTS, PAGE, PAGE], ""),
    "again after a success": ("none,page-flaky", {}, [ROBOTS, PAGE, PAGE, PAGE], "twice"),
    **{
        f"invented {target}": ("none", {}, [ROBOTS, (target, SLOWLY)], "invented")
        for target in ("/favicon.ico", "/fantasma/1", "/sitemap.xml", "/s.css")
    },
    "a page with nofollow": ("none,page-x-robots", {}, [ROBOTS, PAGE], ""),
    **{
        f"nofollow by {kind}": (f"none,{kind}", {}, [ROBOTS, PAGE, ON], "nofollow")
        for kind in ("page-meta-nofollow", "page-x-robots")
    },
}


@each_of(("features", "rules", "requests", "found"), CASES.values(), CASES)
def test_requests_are_judged(
    features: str, rules: dict[str, float], requests: list[tuple[str, float]], found: str
) -> None:
    crawl, kind = Crawl(features, hosts=200, **rules), features.rpartition(",")[2].split("=")[0]
    place = Place(crawl.host_with(kind) if kind.startswith("robots") else 0, 1)
    place = crawl.page_with(kind) if kind.startswith("page") else place
    targets = {"page": place, "on": place._replace(step=1)}
    for target, after_s in requests:
        known = {name: crawl.world.target(each) for name, each in targets.items()}
        crawl.ask(place.host, target.format(**known), after_s)
    assert crawl.found() == set(found.split())


@each_of(("interval_s", "early"), [(0.1, True), (0.25, False)])
def test_ip_delay(interval_s: float, early: bool) -> None:
    crawl = Crawl(ip_delay_s=0.25)
    crawl.world = crawl.ledger.world = World(WorldSpec(hosts=2, ips=1, features="none"))
    crawl.ask(0, "/robots.txt")
    crawl.ask(1, "/robots.txt", after_s=interval_s)
    assert crawl.found() == ({"early_ip"} if early else set())


def test_http_and_https_each_have_a_robots_txt() -> None:
    crawl = Crawl("none,origin-moved=1000")
    host = next(host for host in range(20) if crawl.world.origin_kind(host).moved)
    crawl.ask(host, "/robots.txt")
    crawl.ask(host, "/")
    assert crawl.found() == set()
    crawl.ask(host, "/", secure=True)
    assert crawl.found() == {"before_robots"}


def test_https_of_a_host_without_https_is_invented() -> None:
    crawl = Crawl()
    crawl.ask(0, "/robots.txt", secure=True)
    assert crawl.found() == {"invented"}


def test_head_then_get_is_one_fetch() -> None:
    crawl = Crawl()
    crawl.ask(0, "/robots.txt")
    crawl.ask(0, "/", method="HEAD")
    crawl.ask(0, "/")
    assert crawl.found() == set()


def test_a_retry_after_a_truncated_answer_is_no_violation() -> None:
    crawl = Crawl()
    crawl.ask(0, "/robots.txt")
    crawl.ask(0, "/")
    crawl.ledger.answered(Place(0, 0), "GET", answer(200), 10, whole=False)
    crawl.ask(0, "/")
    assert crawl.found() == set()


def test_a_file_that_pages_show_may_be_asked_for_by_the_rules_of_a_page() -> None:
    """Only if the crawl is to have the requisites of pages, and nothing else that is invented."""
    crawl = Crawl(requisites=True)
    crawl.ask(0, "/robots.txt")
    crawl.ask(0, "/s.css")
    assert crawl.found() == set()
    assert crawl.ledger.totals["requisites"] == 1
    crawl.ask(0, "/s.css", after_s=0.9)
    crawl.ask(0, "/fantasma/1")
    crawl.ask(1, "/s.css")
    assert crawl.found() == {"early_host", "invented", "before_robots"}
    denied = Crawl("none,robots-disallow-all", requisites=True)
    host = denied.host_with("robots-disallow-all")
    denied.ask(host, "/robots.txt")
    denied.ask(host, "/s.css")
    assert denied.found() == {"disallowed"}


def test_a_file_that_a_page_shows_is_missing_until_it_is_asked_for() -> None:
    crawl = Crawl(requisites=True)
    before = crawl.ledger.report()["missing"]["count"]
    place = crawl.page_with("page-plain")
    crawl.ask(place.host, "/robots.txt")
    crawl.ask(place.host, crawl.world.target(place))
    for target, left in (("/s.css", 1), ("/s.png", 0)):
        crawl.ask(place.host, target)
        assert crawl.ledger.report()["missing"]["count"] == before - 1 + left


def test_out_of_scope() -> None:
    crawl = Crawl(scope_suffix=".br")
    names = crawl.world.names()
    crawl.ask(next(host for host, name in enumerate(names) if name[-3:] == ".br"), "/robots.txt")
    assert crawl.found() == set()
    crawl.ask(next(host for host, name in enumerate(names) if name[-3:] != ".br"), "/robots.txt")
    assert crawl.found() == {"out_of_scope"}


def test_unknown_host_and_wrong_address() -> None:
    crawl = Crawl()
    crawl.ledger.asked(1.0, "nada.com.br", "127.1.0.1", "GET", "/")
    assert crawl.found() == {"unknown_host"}
    crawl.ledger.asked(2.0, crawl.world.names()[0], "127.77.0.1", "GET", "/robots.txt")
    assert crawl.found() == {"unknown_host", "wrong_address"}


def test_missing() -> None:
    crawl = Crawl(hosts=2)
    truth = crawl.ledger.report()
    assert truth["missing"]["count"] == truth["truth"]["pages"]
    for host in range(2):
        crawl.ask(host, "/robots.txt")
        for page in range(crawl.world.host(host).site.size):
            assert faults(crawl.ledger.report())
            crawl.ask(host, crawl.world.target(Place(host, page)))
    assert faults(crawl.ledger.report()) == []


def test_a_partial_crawl_has_no_missing_pages() -> None:
    crawl = Crawl(partial=True)
    crawl.ask(0, "/")
    report = crawl.ledger.report()
    assert not report.keys() & {"missing", "truth"}
    assert [line.split(":")[0] for line in faults(report)] == ["1 x before_robots"]


def test_head_alone_does_not_make_a_document_reached() -> None:
    crawl = Crawl(hosts=1)
    crawl.ask(0, "/robots.txt")
    for page in range(crawl.world.host(0).site.size):
        crawl.ask(0, crawl.world.target(Place(0, page)), method="HEAD" if page == 0 else "GET")
    assert crawl.ledger.report()["missing"]["examples"] == [crawl.world.url(Place(0, 0))]


def test_totals() -> None:
    crawl = Crawl()
    crawl.ask(0, "/robots.txt")
    crawl.ask(0, "/")
    crawl.ledger.answered(None, "GET", Reply(0), 7, whole=True)
    totals = crawl.ledger.report()["totals"]
    assert totals["requests"] == 2
    assert totals["robots"] == totals["pages"] == totals["pages_2xx"] == 1
    assert totals["bytes"] == 207
    assert totals["bytes_robots"] == 100
    assert totals["links"] == len(crawl.world.outlinks(Place(0, 0)))


def test_examples_are_bounded_and_counts_are_not() -> None:
    crawl = Crawl()
    for _ in range(30):
        crawl.ask(0, "/nada", after_s=0.1)
    found = crawl.ledger.report()["violations"]
    assert found["invented"]["count"] == 30
    assert len(found["invented"]["examples"]) == 20


def test_every_violation_is_described_in_a_fault() -> None:
    crawl = Crawl()
    for violation in VIOLATIONS:
        crawl.ledger._blame(violation, "x")
    lines = faults(crawl.ledger.report())
    assert len(lines) == len(VIOLATIONS) + 1


def test_pages_that_change_may_be_fetched_again() -> None:
    world = World(WorldSpec(hosts=3, features="none", ips=3, change_cycle_s=100.0, br_share=1))
    ledger, name = Ledger(world, Rules(partial=True)), world.names()[0]
    place = Place(0, 0)
    ip = world.host(0).dns.addresses[0]
    ledger.asked(-9.0, name, ip, "GET", "/robots.txt")
    now, bodies = 0.0, {}
    while now < 3_000:
        ledger.asked(now, name, ip, "GET", "/")
        version = world.version(place, now)
        (body,) = world.reply(0, place, version=version).body
        assert bodies.setdefault(version, body) == body
        now += 10.0
    assert len({*bodies.values()}) == len(bodies) > 1
    report = ledger.report(3_000.0)
    assert faults(report) == []
    changes = report["changes"]
    assert changes["visits"] == 299
    assert changes["changed"] == len(bodies) - 1
    assert changes["watched_s"] == 3_000
    assert 1_000 < changes["fresh_s"] < 3_000


def test_the_sitemap_of_pages_that_change_has_their_dates() -> None:
    features = "none,robots-some=1,map-plain=1,map-none=0.1"
    world = World(WorldSpec(hosts=9, features=features, change_cycle_s=100.0))
    assert world.changes is not None
    world.changes.utc_s = 1_700_000_000.0
    host = next(host for host in range(9) if world.listed(host))
    place = world.listed(host)[0]
    entry = f"<loc>{world.url(place)}</loc><lastmod>"

    def date(now: float) -> str:
        reply = world.reply(host, Place(host, SITEMAP_PAGE), now=now)
        (body,) = reply.body
        assert isinstance(body, bytes)
        assert b"Content-Length: %d\r\n" % len(body) in reply.head
        return body.decode().partition(entry)[2][:25]

    assert date(0.0) == "1970-01-01T00:00:00+00:00"
    _, changes_at = world.changes.version(place, 0.0)
    assert date(changes_at - 1) == "1970-01-01T00:00:00+00:00"
    changed = datetime.fromisoformat(date(changes_at + 1e-3)).timestamp()
    assert changed == int(1_700_000_000 + changes_at)
