"""Commands of a user that hold for all hubs.

A command at any hub goes to hub 0 (`Command`), which carries it out, sends its orders to all hubs
(`Obey`), and answers (`Reply`) when all that are there have reported these orders
(`target.Report`), or says which have not. A hub that comes back gets the orders when its session
begins; before it has obeyed it gives no lease.

A question about a URL (`explain`) goes to its hub in the same letters.

What comes is data: entries are tested as those of a user are, and may name no file. Orders that
cannot be obeyed are one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple, Protocol

from msgspec.structs import replace

from webcrawl.base.wording import printable
from webcrawl.cluster.packets import Letter
from webcrawl.cluster.peers import Letters, Listener, Peers
from webcrawl.cluster.target import Report
from webcrawl.hub.server import FrontierServer
from webcrawl.hub.wire import BoundedText, Orders, SteeringError
from webcrawl.scope.rules import check_entry

logger = logging.getLogger(__name__)

OF_ALL: Final = frozenset({"pause", "resume", "stop", "allow", "deny", "target"})
STEP_S: Final = 0.25  # between two looks at what hubs have reported
OBEY_S: Final = 8.0  # for all hubs to obey
ANSWER_S: Final = 15.0  # for hub 0 to answer a command: longer, since it waits for all

_EXPLAIN: Final = "explain"


class Command(Letter, frozen=True):
    """Carry out a command of a user for all hubs, or explain a URL. `Reply` has the number."""

    number: int
    command: BoundedText
    arguments: tuple[BoundedText, ...]


class Reply(Letter, frozen=True):
    """The answer to a `Command`, for the user."""

    number: int
    text: BoundedText
    is_refused: bool


class Obey(Letter, frozen=True):
    """How the crawl is steered."""

    orders: Orders


class Reached(NamedTuple):
    """Which hubs have not obeyed; requests that the orders forbid, at the others, unanswered."""

    missing: tuple[int, ...]
    unanswered: int


class Process(Protocol):
    """The process of this hub."""

    @property
    def is_closing(self) -> bool: ...

    @property
    def elapsed_s(self) -> float: ...

    @property
    def rules(self) -> str:
        """A hash of the rules (RULES) in force."""

    def has_seeds(self) -> bool:
        """Whether the spider still gives seeds, or links and commands are on their way."""

    def stop(self) -> None:
        """A user has stopped the crawl at another hub."""

    def wake(self) -> None:
        """The crawl has ended, or leases are given again."""

    def give_back_all(self) -> None:
        """Give back the leases of this process whose requests are not sent."""

    async def explain(self, url: str) -> list[str]:
        """Why this hub fetches its URL or not. SteeringError: it cannot say."""

    async def order(self, command: str, arguments: Sequence[str], by: str) -> str:
        """Hub 0: carry out a command of OF_ALL in all hubs. SteeringError if it is refused."""

    async def obey(self, added: Orders) -> int:
        """Carry out the orders of hub 0; how many requests that they forbid have no answer yet.

        `added` has the entries that are new here. SteeringError: it is not carried out, and the log
        says why.
        """


class HubSteering:
    """Steering of all hubs, at one of them.

    unanswered -- of the last orders that this hub has obeyed
    on_obeyed -- this hub has carried out the orders of hub 0
    """

    def __init__(self, peers: Peers, server: FrontierServer, process: Process) -> None:
        self.unanswered = 0
        self.on_obeyed: Callable[[], None] = lambda: None
        self._peers = peers
        self._server = server
        self._process = process
        self._reports: Mapping[int, Report] = {}
        self._obeying = asyncio.Lock()
        self._questions = count(1)
        self._waiting: dict[tuple[int, int], asyncio.Future[Reply | None]] = {}  # hub, number
        self._tasks: set[asyncio.Task[None]] = set()
        letters: Letters = {
            Command: lambda hub, command: self._start(self._answer(hub, command)),
            Obey: self._hear,
            Reply: self._hear_reply,
        }
        peers.add(Listener(letters, end=self._end_session))

    def __repr__(self) -> str:
        return f"<HubSteering: {len(self._waiting)} answers are waited for>"

    # Orders

    def hear(self, hub: int, report: Report) -> None:
        """Hub 0: a hub that knows orders of a run before gets those of this one, as later ones."""
        self._reports = {**self._reports, hub: report}
        if report.orders > self._server.orders.number:
            self._server.orders = replace(self._server.orders, number=report.orders + 1)
            self._peers.send_to_all(Obey(self._server.orders))

    async def spread(self) -> Reached:
        """Hub 0: let all hubs obey the orders that hold here. In OBEY_S at most."""
        number, others = self._server.orders.number, self._peers.others
        self._peers.send_to_all(Obey(self._server.orders))
        for _ in range(int(OBEY_S / STEP_S)):
            done = {
                hub: report
                for hub, report in self._reports.items()
                if report.orders >= number and self._peers.is_connected(hub)
            }
            if done.keys() >= set(filter(self._peers.is_connected, others)):
                break
            await asyncio.sleep(STEP_S)
        missing = tuple(hub for hub in others if hub not in done)
        return Reached(missing, sum(report.unanswered for report in done.values()))

    def _hear(self, hub: int, obey: Obey) -> None:
        try:
            if hub != 0:
                raise ValueError("only hub 0 gives orders")
            _added(self._server.orders, obey.orders)
        except ValueError as error:  # SettingError too
            line = "Hub %d has sent orders that are not obeyed: %s"
            logger.error(line, hub, printable(str(error)[:500]))
        else:
            self._start(self._obey(obey.orders))

    async def _obey(self, orders: Orders) -> None:
        async with self._obeying:  # in their order
            known = self._server.orders
            if orders.number >= known.number:
                try:
                    self.unanswered = await self._process.obey(_added(known, orders))
                except SteeringError:
                    return
            self.on_obeyed()

    # Commands

    async def explain(self, hub: int, url: str) -> list[str]:
        """Why `hub` fetches its URL or not. SteeringError."""
        return (await self.ask(_EXPLAIN, [url], hub)).split("\n")

    async def ask(self, command: str, arguments: Sequence[str], hub: int = 0) -> str:
        """What `hub` answers to a command. SteeringError."""
        number, reply = next(self._questions), None
        waiting = self._waiting[hub, number] = asyncio.get_running_loop().create_future()
        if self._peers.is_connected(hub):
            self._peers.send(hub, Command(number, command, tuple(arguments)))
            await asyncio.wait([waiting], timeout=ANSWER_S)
            reply = waiting.result() if waiting.done() else None
        del self._waiting[hub, number]
        if reply is None:
            raise SteeringError(f"hub {hub} does not answer: try again when it is there")
        text = "\n".join(map(printable, reply.text.split("\n")))
        if reply.is_refused:
            raise SteeringError(text)
        return text

    async def _answer(self, hub: int, command: Command) -> None:
        try:
            text = await self._carry_out(hub, command.command, command.arguments)
        except (SteeringError, ValueError) as error:  # SettingError too
            self._peers.send(hub, Reply(command.number, str(error), is_refused=True))
        else:
            self._peers.send(hub, Reply(command.number, text, is_refused=False))

    async def _carry_out(self, hub: int, command: str, arguments: Sequence[str]) -> str:
        if command == _EXPLAIN and len(arguments) == 1:
            return "\n".join(await self._process.explain(arguments[0]))
        if self._peers.number != 0:
            raise SteeringError("only hub 0 carries out commands")
        if command not in OF_ALL:
            raise SteeringError(f"{command} is of one hub alone")
        _check(command, arguments)
        return await self._process.order(command, arguments, f"scrapy ctl at hub {hub}")

    def _hear_reply(self, hub: int, reply: Reply) -> None:
        waiting = self._waiting.get((hub, reply.number))
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    def _end_session(self, hub: int) -> None:
        for (other, _), waiting in self._waiting.items():
            if other == hub and not waiting.done():
                waiting.set_result(None)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _added(known: Orders, orders: Orders) -> Orders:
    """`orders` with the entries that are not known yet. SettingError as `_check`."""
    before = {*known.allow}, {*known.deny}
    allow = tuple(each for each in dict.fromkeys(orders.allow) if each not in before[0])
    deny = tuple(each for each in dict.fromkeys(orders.deny) if each not in before[1])
    _check("allow", allow)
    _check("deny", deny)
    return replace(orders, allow=allow, deny=deny)


def _check(command: str, arguments: Iterable[str]) -> None:
    """SettingError if an entry of allow or deny cannot be used, or names a file."""
    for entry in arguments if command in ("allow", "deny") else ():
        check_entry(command, entry)
