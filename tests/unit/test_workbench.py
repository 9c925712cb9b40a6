"""The workbench: the number of stale entries is bounded."""

from __future__ import annotations

from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.host import Host
from webcrawl.frontier.lease import Lane
from webcrawl.frontier.workbench import Workbench

HOSTS, GOOD, BAD = 10, 2, 9
MOVES = 5_000


def bench() -> tuple[Workbench, list[Host]]:
    made = Workbench()
    store = Store(None)
    hosts = [store.hosts.host(f"h{n}") for n in range(HOSTS)]
    for number, host in enumerate(hosts):
        made.add(host)
        made.bind(host, "10.0.0.1")
        made.ready(host, Lane.PAGES, BAD, number)
    return made, hosts


def test_parked_hosts_leave_a_bounded_number_of_stale_entries() -> None:
    made, hosts = bench()
    leased = made.pop(Lane.PAGES, 0.0)
    assert leased is hosts[0]
    made.lease(leased, with_ip=True)
    for number in range(HOSTS, MOVES):
        host = hosts[1 + number % (HOSTS - 1)]
        made.ready(host, Lane.PAGES, GOOD + number % 2, number)
        assert made.pop(Lane.PAGES, 0.0) is None
    assert len(made._ips["10.0.0.1"].parked) < 200
    made.audit()
    assert leased.ip is not None
    made.end_lease(leased.ip, 1.0)
    made.idle(leased)
    asked = set()
    for now in range(1, HOSTS):
        made.wake(now)
        host = made.pop(Lane.PAGES, now)
        assert host is not None
        assert host.ip is not None
        made.lease(host, with_ip=True)
        made.end_lease(host.ip, now + 1.0)
        made.idle(host)
        asked.add(host)
    assert asked == set(hosts[1:])
