"""The hosts in memory: ready in a lane, snoozed on a clock, or parked behind their IP address.

Owns the order of the hosts. Knows nothing of links, robots.txt or outcomes: the distributor decides
the state of a host, the workbench which host is next. The name is BUbiNG's (Boldi et al., "BUbiNG:
Massive Crawling for the Masses", 2014).

Every move is O(log hosts), amortised. A host has one valid entry: the one with its current token.
A move leaves the old entry in its heap. Such stale entries are skipped at the head of the heap.
Those of the worst ranks may never get there, so a heap with twice as many entries as hosts is
cleaned.

Several frontiers may share the clocks of their addresses (`addresses`). Then a host is popped only
after its address was taken there, and `Ip.next_at` is only when to ask for it again.

Invariants, checked by `audit`:
- an IP address has at most one lease;
- an address with parked hosts is leased, or has a timer, or has a host in a lane: no host waits
  forever.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Final

from webcrawl.frontier.addresses import Addresses
from webcrawl.frontier.host import Host, Ip, State
from webcrawl.frontier.lease import Lane

_Entry = tuple[int, int, int, Host, int]  # rank, number, token, host, lane
VISITS: Final = len(Lane)  # a lane beside those of `Lane`: hosts whose next page is a visit
_STALE_MIN = 100  # fewer stale entries are not worth a scan


class Workbench:
    """The hosts of a frontier that are in memory, and their clocks."""

    def __init__(
        self,
        *,
        ip_clocks: bool = True,
        ips_at: float = 0.0,
        shared: Addresses | None = None,
    ) -> None:
        """No address may be asked before `ips_at`.

        `shared`: addresses that other frontiers ask too.
        """
        self.hosts: dict[str, Host] = {}
        self.active = 0  # hosts that are ready, parked, snoozed or leased
        self.supply = 0  # the sum of `Host.supply`
        self._ips_at = ips_at
        self._ip_clocks = ip_clocks
        self._ips: dict[str, Ip] = {}
        self._lanes: tuple[list[_Entry], ...] = tuple([] for _ in (*Lane, VISITS))
        self._timers: list[
            tuple[float, int, int, Host | Ip]
        ] = []  # time, order, token, host or address
        self._tokens = 0
        self._shared = shared
        self._taken: Ip | None = None  # for the host that was popped last, which has no lease yet

    def __repr__(self) -> str:
        states = [host.state for host in self.hosts.values()]
        return "<Workbench " + ", ".join(f"{states.count(s)} {s.value}" for s in State) + ">"

    def add(self, host: Host) -> None:
        """Take `host` out of the store."""
        self.hosts[host.name] = host
        if host.addresses:
            self.bind(host, host.addresses[0])

    def forget(self, host: Host) -> None:
        """Remove `host`, which is not active and is in the store.

        Its IP entry stays until the clock of the address is due.
        """
        del self.hosts[host.name]
        self._unbind(host)

    def bind(self, host: Host, address: str) -> None:
        """Set the address of `host`."""
        if self._ip_clocks and (host.ip is None or host.ip.address != address):
            self._unbind(host)
            ip = self._ips.get(address)
            if ip is None:
                ip = self._ips[address] = Ip(address, self._ips_at, [])
            ip.hosts += 1
            host.ip = ip

    # Moves. Each one invalidates the host's earlier entry.

    def ready(self, host: Host, lane: int, rank: int, number: int, supply: int = 0) -> None:
        """Put `host` in `lane`, where the lowest (rank, number) is popped first."""
        self._move(host, State.READY, supply)
        host.rank = rank
        entry = (rank, number, host.token, host, lane)
        _push(self._lanes[lane], entry, self.active)

    def snooze(self, host: Host, at: float, supply: int = 0) -> None:
        """Snooze `host`: `wake` returns it at `at`."""
        self._move(host, State.SNOOZED, supply)
        heappush(self._timers, (at, host.token, host.token, host))

    def idle(self, host: Host) -> None:
        self._move(host, State.IDLE)

    def wait(self, host: Host, rank: int) -> None:
        """`host` waits in the store: there are too many active hosts."""
        self._move(host, State.WAITING)
        host.rank = rank

    def defer(self, host: Host, at: float) -> None:
        """`host` waits in the store: all its links are kept until `at` or later."""
        self._move(host, State.DEFERRED)
        host.due_at = at

    def lease(self, host: Host, *, with_ip: bool) -> None:
        """Lease `host`, and its address with it unless only DNS is asked."""
        self._move(host, State.LEASED)
        if with_ip and host.ip is not None:
            assert not host.ip.leased
            host.ip.leased = True
            self._taken = None

    def end_lease(self, ip: Ip, next_at: float) -> None:
        """The lease of `ip` is over: it is free at `next_at`."""
        ip.leased = False
        ip.next_at = max(ip.next_at, next_at)
        if self._shared is not None:
            self._shared.release(ip.address, ip.next_at)
        if ip.parked:
            self._arm(ip)

    def pop(self, lane: int, now: float) -> Host | None:
        """The best host of `lane` whose IP address is free. The caller must lease or place it."""
        entries = self._lanes[lane]
        if self._taken is not None:
            self._give_back(now)
        while entries:
            entry = heappop(entries)
            host = entry[3]
            if host.token != entry[2]:
                continue
            ip = host.ip
            free = ip is None or (not ip.leased and ip.next_at <= now)
            if ip is None or (free and not self._has_better_parked(ip, entry)):
                if self._shared is None or not host.addresses or self._takes(host, now):
                    return host
                if ip is None:
                    continue
                free = False
            self.supply -= host.supply
            host.state, host.supply = State.PARKED, 0  # its entry stays valid
            _push(ip.parked, entry, ip.hosts)
            if free:
                self._unpark(ip)
            elif not ip.leased:
                self._arm(ip)
        return None

    def unpark_next(self, host: Host, now: float) -> None:
        """`host` was popped and does not use its address: unpark the next host of the address."""
        if self._taken is not None:
            self._give_back(now)
        ip = host.ip
        if ip is not None and ip.parked and not ip.leased and not ip.armed:
            self._unpark(ip)

    def _takes(self, host: Host, now: float) -> bool:
        """Take the shared address of `host`, which is popped, or note when to ask again."""
        assert self._shared is not None
        address, ip = host.addresses[0], host.ip
        again_at = self._shared.acquire(address, now)
        if again_at <= now:
            self._taken = ip
            return True
        if ip is not None:
            ip.next_at = again_at
        else:  # no clock of the address, only its cap
            self.snooze(host, again_at)
        return False

    def _give_back(self, now: float) -> None:
        """The host that was popped last has not used its address."""
        assert self._shared is not None
        assert self._taken is not None
        self._shared.cancel(self._taken.address, now)
        self._taken = None

    def _ask_freed(self, now: float) -> None:
        """Unpark a host of each shared address that others have freed for us."""
        assert self._shared is not None
        for address in self._shared.freed(now):
            ip = self._ips.get(address)
            if ip is not None and not ip.leased and self._unpark(ip):
                ip.next_at = min(ip.next_at, now)
                ip.armed = False  # its timer is too late; the host asks for the address now
            else:
                self._shared.stop_waiting(address, now)

    def wake(self, now: float) -> list[Host]:
        """The snoozed hosts whose clock is due: the caller places each.

        Unparks a host of each address that is free.
        """
        woken: list[Host] = []
        timers = self._timers
        if self._shared is not None:
            self._ask_freed(now)
        while timers and timers[0][0] <= now:
            _, _, token, waiting = heappop(timers)
            if isinstance(waiting, Ip):
                waiting.armed = False
                if not waiting.leased:
                    self._unpark(waiting)
                if not waiting.hosts and waiting.next_at <= now:
                    self._remove(waiting)
            elif waiting.token == token:
                woken.append(waiting)
        return woken

    def next_at(self, lane: int) -> float:
        """When `pop(lane)` may give a host: 0.0 is now; inf is not before a host is placed."""
        entries = self._lanes[lane]
        while entries and entries[0][3].token != entries[0][2]:
            heappop(entries)
        if entries:
            return 0.0
        timers = self._timers
        while timers:
            at, _, token, waiting = timers[0]
            if isinstance(waiting, Ip) or waiting.token == token:
                return at
            heappop(timers)
        return float("inf")

    def audit(self) -> None:
        """Assert the invariants. O(hosts): for tests and debugging."""
        in_lane = {id(e[3].ip) for e in chain(*self._lanes) if e[3].token == e[2]}
        leased: dict[int, int] = {}
        for host in self.hosts.values():
            if host.state is State.LEASED and host.ip is not None:
                leased[id(host.ip)] = leased.get(id(host.ip), 0) + 1
        assert self.active == sum(host.state.is_active for host in self.hosts.values())
        assert self.supply == sum(host.supply for host in self.hosts.values())
        for address, ip in self._ips.items():
            assert ip.hosts == sum(host.ip is ip for host in self.hosts.values())
            assert leased.get(id(ip), 0) >= ip.leased, f"{address} is leased by no host"
            if any(entry[3].token == entry[2] for entry in ip.parked):
                assert ip.leased or ip.armed or id(ip) in in_lane, f"{address} is forgotten"

    def _move(self, host: Host, state: State, supply: int = 0) -> None:
        self.active += state.is_active - host.state.is_active
        self.supply += supply - host.supply
        host.state, host.supply = state, supply
        self._tokens += 1
        host.token = self._tokens

    def _unbind(self, host: Host) -> None:
        """Remove the address of `host` once its clock is due, if no other host is bound to it."""
        ip, host.ip = host.ip, None
        if ip is not None:
            ip.hosts -= 1
            if not ip.hosts:
                self._arm(ip)

    def _has_better_parked(self, ip: Ip, entry: _Entry) -> bool:
        """Whether a host parked behind `ip`, of any lane, comes before `entry`."""
        parked = ip.parked
        while parked and parked[0][3].token != parked[0][2]:
            heappop(parked)
        return bool(parked) and parked[0] < entry

    def _arm(self, ip: Ip) -> None:
        """Set a timer that unparks the next host of `ip`."""
        if not ip.armed:
            ip.armed = True
            self._tokens += 1
            heappush(self._timers, (ip.next_at, self._tokens, 0, ip))

    def _unpark(self, ip: Ip) -> bool:
        """Move the best host parked behind `ip` back to its lane. False: there is none."""
        while ip.parked:
            entry = heappop(ip.parked)
            host = entry[3]
            if host.token == entry[2]:
                host.state = State.READY
                heappush(self._lanes[entry[4]], entry)
                return True
        return False

    def _remove(self, ip: Ip) -> None:
        """Forget `ip`, which has no host; an earlier timer may have done it."""
        if self._ips.get(ip.address) is ip:
            del self._ips[ip.address]


def _push(entries: list[_Entry], entry: _Entry, hosts: int) -> None:
    """Add to a heap in which at most `hosts` entries are valid."""
    heappush(entries, entry)
    if len(entries) > 2 * hosts + _STALE_MIN:
        entries[:] = [each for each in entries if each[3].token == each[2]]
        heapify(entries)
