"""Applies an outcome to its host: clocks, addresses, rules, back-off, retirement.

Owns the decisions about answers of DNS, robots.txt and servers. Knows nothing of queues.

A host that fails is retired for a while. If the answer was definite (no such name), each of its
links is dropped when it is the next in the queue. Else the links are kept, and each further
retirement without an answer in between is longer.

A robots task is carried out by the host that serves the robots.txt. After a redirect this may be
another host than the task's home. The rules are for the home. Host and home may be of different
hubs: then the task and its result travel as mail (`mailbox`).
"""

from __future__ import annotations

from typing import Final

from webcrawl.crawllog.line import milliseconds
from webcrawl.fetch.exchange import UNANSWERED
from webcrawl.frontier.distributor import Distributor
from webcrawl.frontier.host import Host, Rules
from webcrawl.frontier.lease import (
    Answered,
    Fetched,
    GivenUpReason,
    Outcome,
    Resolved,
    RobotsFetched,
    RobotsMoved,
    RobotsTask,
    RobotsUnreachable,
    Unresolved,
    UnresolvedReason,
)
from webcrawl.frontier.mailbox import (
    Mail,
    RobotsAnswered,
    RobotsAsked,
    RobotsFailed,
    answered,
)
from webcrawl.frontier.state import CoreState
from webcrawl.parse.domains import is_address
from webcrawl.parse.robots import RobotsRules
from webcrawl.parse.urls import host_of

# A server has answered, and not by an error in place of its robots.txt.
_WELL_ANSWERED: Final = (Fetched, RobotsFetched, RobotsMoved)


class Disposition:
    """Applies outcomes to hosts."""

    def __init__(self, state: CoreState, distributor: Distributor) -> None:
        self._state = state
        self._mailbox = state.mailbox
        self._policy = state.policy
        self._polite = state.policy.politeness
        self._counters = state.counters
        self._distributor = distributor

    def set_clocks(self, host: Host, outcome: Outcome) -> None:
        """End the lease of the address of `host`, and set both clocks from the request."""
        asked_at, ended_at = outcome.asked_at, outcome.ended_at
        polite = self._polite
        if polite.delay_factor and isinstance(outcome, Answered):
            self._policy.learn_pace(host, outcome)
        if asked_at > host.asked_at:
            host.asked_at = asked_at
        next_at = polite.next_at(self._policy.delay_s(host), asked_at, ended_at)
        if next_at > host.next_at:
            host.next_at = next_at
        if host.ip is not None:
            ip_next_at = polite.next_at(polite.ip_delay_s, asked_at, ended_at)
            self._distributor.bench.end_lease(host.ip, ip_next_at)
        if isinstance(outcome, _WELL_ANSWERED):
            host.received_bytes += outcome.size_bytes
            if isinstance(outcome, Fetched) and outcome.wall:
                return
            if host.deferrals:
                self._state.backlog.host_answers(host)
            host.failures = host.dead_addresses = host.deferrals = 0

    # DNS

    def resolved(self, host: Host, outcome: Resolved) -> None:
        if not (host.addresses or is_address(host.name)):
            self._counters.resolved += 1
        host.addresses = outcome.addresses
        host.dns_ms = milliseconds(outcome.took_s)
        host.resolved_until = outcome.expires_at
        host.resolve_tries = host.dead_addresses = 0
        self._distributor.bench.bind(host, outcome.addresses[0])

    def unresolved(self, host: Host, outcome: Unresolved, now: float) -> None:
        host.resolve_tries += 1
        host.dns_ms = milliseconds(outcome.took_s)
        if outcome.again and host.resolve_tries <= self._policy.retry_times:
            self._counters.retried[outcome.reason] += 1
            host.resolve_at = now + self._polite.backoff_s(host.resolve_tries, 0.0)
            return
        host.resolve_tries = 0
        if not outcome.again:
            self.retire(host, outcome.reason, now)
        elif (
            host.addresses and self._policy.stale_s
        ):  # Deviation: an expired address is better than no address (RFC 8767)
            host.resolved_until = now + self._policy.stale_s
        else:
            self.defer(host, outcome.reason, now)
            host.resolve_tries = max(1, self._policy.retry_times)  # from now on one try per look-up

    # robots.txt

    def robots_fetched(self, robots_task: RobotsTask, outcome: RobotsFetched, now: float) -> None:
        if self.is_ours(robots_task):
            self._keep_served(robots_task, outcome.rules, outcome.expires_at, outcome.agent)
            self._home_served(robots_task, outcome.kind, now)
        else:
            self._send_home(robots_task, answered(robots_task, outcome, now))

    def _home_served(self, robots_task: RobotsTask, kind: str, now: float) -> None:
        self._counters.robots[kind] += 1
        home = self._home(robots_task)
        if home.kept:
            self._state.backlog.host_answers(home)
        self._distributor.place_host(home, now)

    def is_needless(self, host: Host, robots_task: RobotsTask, now: float) -> bool:
        """Drop a robots.txt that `host` must not be asked for: whether it was dropped.

        A rule has lifted the robots.txt of its home. Or SCOPE_DENY has grown: all URLs of the host
        were denied; or a robots.txt of another host has moved to this host, which is denied: then
        it cannot be fetched.
        """
        home_name = robots_task.home
        if self.is_ours(robots_task) and self._policy.robots_agent(home_name) is None:
            home = self._home(robots_task)
            home.unmark_elsewhere(robots_task.origin)
            if home is not host:
                self._distributor.place_host(home, now)
            return True
        if not self._policy.denied.has_any:
            return False
        if home_name == host.name:
            return not host.queue.length
        if not self._policy.denied.has_host(host.name):
            return False
        self._robots_unavailable(robots_task, "denied", now)
        self._place_home(robots_task, now)
        return True

    def robots_moved(self, robots_task: RobotsTask, outcome: RobotsMoved, now: float) -> None:
        redirects = robots_task.redirects + 1
        self._hand_on(robots_task._replace(url=outcome.url, redirects=redirects), now)

    def _hand_on(self, robots_task: RobotsTask, now: float) -> None:
        """Give `robots_task` to the host of its URL."""
        name = host_of(robots_task.url)
        hub = self._hub_of(name)
        home = self._home(robots_task) if self.is_ours(robots_task) else None
        if hub is not None:
            assert self._mailbox is not None
            self._mailbox.send(hub, RobotsAsked(robots_task))
            if home is not None:
                home.mark_elsewhere(robots_task.origin)
            else:
                self._mailbox.end_task(robots_task)
            return
        target = self._distributor.host(name)
        target.add_robots_task(robots_task)
        if home is None:
            assert self._mailbox is not None
            self._mailbox.keep_task(robots_task)
        elif target is home:
            home.unmark_elsewhere(robots_task.origin)
        else:
            home.mark_elsewhere(robots_task.origin)
        if target is not home:
            if target.retired_until > now:
                self._flush_robots_tasks(target, now, target.retired_reason)
            self.flush_denied(target, now)
        self._distributor.place_host(target, now)

    def robots_unreachable(
        self, host: Host, robots_task: RobotsTask, outcome: RobotsUnreachable, now: float
    ) -> None:
        reason, retry_after_s = outcome.reason, outcome.retry_after_s
        if self.try_next_address(host, reason):
            host.add_robots_task(robots_task)
        elif self.is_ours(robots_task):
            self._home_failed(robots_task, reason, outcome.ended_at, retry_after_s, now)
        else:
            mail = RobotsFailed(robots_task, reason, again=True, retry_after_s=retry_after_s)
            self._send_home(robots_task, mail)

    def _home_failed(
        self,
        robots_task: RobotsTask,
        reason: str,
        ended_at: float,
        retry_after_s: float,
        now: float,
    ) -> None:
        home = self._home(robots_task)
        tries = robots_task.tries + 1
        if tries <= self._policy.retry_times:
            self._counters.retried["robots"] += 1
            home.unmark_elsewhere(robots_task.origin)
            url = robots_task.origin + "/robots.txt"
            home.add_robots_task(robots_task._replace(url=url, redirects=0, tries=tries))
        else:
            self._robots_unavailable(robots_task, reason, now)
        # Links that are refused from now on need not wait for the clock before they are dropped.
        if home.robots_tasks or retry_after_s or not home.rules[robots_task.origin].reason:
            self.back_off(home, tries, ended_at, retry_after_s)
        self._distributor.place_host(home, now)

    def _robots_unavailable(self, robots_task: RobotsTask, reason: str, now: float) -> None:
        """A robots.txt cannot be fetched: use the origin's last rules for a while, or disallow all.

        RFC 9309, 2.3.1.4: an unreachable robots.txt is complete disallow. So are rules that lack a
        name of ROBOTSTXT_USER_AGENT, which an earlier run did not have.
        """
        if not self.is_ours(robots_task):
            self._send_home(robots_task, RobotsFailed(robots_task, reason, again=False))
            return
        self._counters.robots[reason] += 1
        agent = self._policy.robots_agent(robots_task.home) or ""
        known = self._home(robots_task).rules.get(robots_task.origin)
        if known is None or not set(self._policy.also) <= set(known.agent.split(",")):
            known = Rules(0.0, reason="robots_unreachable")
        losses = known.losses + 1
        again_s = self._polite.deferral_s(losses) if known.reason else self._policy.stale_s
        known = known._replace(expires_at=now + again_s, losses=losses, agent=agent)
        self._keep_rules(robots_task, known)

    def _keep_served(
        self, robots_task: RobotsTask, rules: RobotsRules, expires_at: float, agent: str
    ) -> None:
        self._state.store.keep_rules(robots_task.origin, rules)
        known = Rules(
            *(expires_at, rules.crawl_delay_s or 0.0),
            allows_all=rules.allows_all,
            agent=self._policy.robots_names(agent),
        )
        self._keep_rules(robots_task, known)

    def _keep_rules(self, robots_task: RobotsTask, rules: Rules) -> None:
        home = self._home(robots_task)
        home.unmark_elsewhere(robots_task.origin)
        home.rules[robots_task.origin] = rules
        home.crawl_delay_s = max(rules.crawl_delay_s for rules in home.rules.values())
        self._distributor.apply_delay(home)

    def is_ours(self, robots_task: RobotsTask) -> bool:
        """Whether the rules of `robots_task` are for a host of ours."""
        return self._hub_of(robots_task.home) is None

    def _home(self, robots_task: RobotsTask) -> Host:
        """The host whose robots.txt the task is for. It is ours."""
        return self._distributor.host(robots_task.home)

    def _place_home(self, robots_task: RobotsTask, now: float) -> None:
        if self.is_ours(robots_task):
            self._distributor.place_host(self._home(robots_task), now)

    # robots.txt of foreign homes, or served by foreign hosts

    def received(self, mail: RobotsAsked | RobotsAnswered | RobotsFailed, now: float) -> None:
        """Another hub sent `mail`."""
        task = mail.robots_task
        match mail:
            case RobotsAsked():
                assert self._mailbox is not None
                if task.origin not in self._mailbox.robots_tasks:  # else its result is due anyway
                    self._hand_on(task, now)
            case RobotsAnswered():
                self._keep_served(task, mail.read(), now + mail.valid_s, mail.agent)
                self._home_served(task, mail.kind, now)
            case RobotsFailed(again=True):
                self._home_failed(task, mail.reason, now, mail.retry_after_s, now)
            case RobotsFailed():
                self._robots_unavailable(task, mail.reason, now)
                self._place_home(task, now)

    def resume(self, now: float) -> None:
        """Give our hosts the foreign tasks that they had in an earlier run."""
        for robots_task in self._mailbox.kept_tasks() if self._mailbox is not None else ():
            self._hand_on(robots_task, now)

    def _hub_of(self, host: str) -> int | None:
        """The hub of a foreign `host`; None if it is ours."""
        return None if self._mailbox is None else self._mailbox.hub_of(host)

    def _send_home(self, robots_task: RobotsTask, mail: Mail) -> None:
        hub = self._hub_of(robots_task.home)
        assert self._mailbox is not None
        assert hub is not None
        self._mailbox.send(hub, mail)
        self._mailbox.end_task(robots_task)

    # Failures

    def back_off(self, host: Host, tries: int, ended_at: float, retry_after_s: float = 0.0) -> None:
        """Let `host` wait after the `tries`-th failure, or for as long as its Retry-After asks."""
        polite = self._polite
        wait_s = polite.backoff_s(tries, self._policy.delay_s(host))
        wait_s = max(wait_s, min(retry_after_s, polite.retry_after_max_s))
        host.next_at = max(host.next_at, ended_at + wait_s)

    def walled(self, host: Host, ended_at: float, retry_after_s: float, now: float) -> None:
        """A bot wall stands in the place of a page: a refusal, each in a row with a longer wait.

        After as many as of attempts without an answer, `host` is deferred: its pages are not lost.
        """
        tries = host.failures + 1
        self.failed(host, now)
        self.back_off(host, tries, ended_at, retry_after_s)

    def failed(self, host: Host, now: float) -> None:
        """Count an attempt without an answer; after too many in a row, defer `host`."""
        host.failures += 1
        if host.failures >= self._policy.failures_max or host.deferrals:
            self.defer(host, "host_retired", now)

    def try_next_address(self, host: Host, reason: str) -> bool:
        """Switch to the next address of `host` that the IP cap allows.

        True if the next try is not counted as a retry: the old address did not answer, and another
        one is untried (RFC 8305, 5).
        """
        addresses = host.addresses
        for turn in range(1, len(addresses)):
            if not self._state.caps.take_ip(addresses[turn]):
                host.addresses = addresses[turn:] + addresses[:turn]
                host.dead_addresses += turn
                self._distributor.bench.bind(host, addresses[turn])
                return reason in UNANSWERED and host.dead_addresses < len(addresses)
        return False

    def retire(self, host: Host, reason: UnresolvedReason, now: float) -> None:
        """Retire `host`: links taken from its queue, new ones too, are dropped for a while."""
        host.deferrals = 0
        self._give_up(host, reason, now + self._policy.retired_s, now)

    def defer(self, host: Host, reason: GivenUpReason, now: float) -> None:
        """Retire `host`, for longer each time: links taken from its queue are kept meanwhile."""
        host.deferrals += 1
        self._give_up(host, reason, now + self._polite.deferral_s(host.deferrals), now)

    def _give_up(self, host: Host, reason: GivenUpReason, until: float, now: float) -> None:
        host.failures = 0
        host.retired_reason = reason
        host.retired_until = until
        self._flush_robots_tasks(host, now, reason)

    def flush_denied(self, host: Host, now: float) -> None:
        """Fail the robots tasks of `host` if a rule denies all its URLs: it gets no request."""
        if self._policy.denies_all(host.name):
            self._flush_robots_tasks(host, now, "deny")

    def _flush_robots_tasks(self, host: Host, now: float, reason: str) -> None:
        """Fail the robots tasks of `host`. Some of them may be for other hosts."""
        robots_tasks, host.robots_tasks = host.robots_tasks or (), None
        for robots_task in robots_tasks:
            self._robots_unavailable(robots_task, reason, now)
            if robots_task.home != host.name:
                self._place_home(robots_task, now)
