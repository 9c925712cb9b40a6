"""Commands of a user that hold for all hubs, and questions from hub to hub.

A command at any hub goes to hub 0 (`Command`), which carries it out, sends the whole state to all
hubs (`Obey`), and answers when they have obeyed, or says which have not (`Reply`). A hub that comes
back gets the state when its session begins; before it has obeyed it gives no lease.

What comes is data: entries are tested as those of a user are, and may name no file. Orders that
cannot be obeyed are one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from itertools import count
from typing import Annotated, Any, Final, NamedTuple, Protocol

from msgspec import Meta
from msgspec.structs import replace

from webcrawl.base.wording import printable
from webcrawl.cluster.packets import Letter
from webcrawl.cluster.peers import Letters, Listener, Peers
from webcrawl.hub.server import FrontierServer
from webcrawl.hub.wire import Orders, SteeringError
from webcrawl.scope.rules import check_entry

logger = logging.getLogger(__name__)

_EXPLAIN: Final = "explain"  # the command that asks why a URL is fetched or not
OBEY_S: Final = 8.0  # for all hubs to obey
ANSWER_S: Final = 15.0  # for hub 0 to answer a command: longer, since it waits for all

_Text = Annotated[str, Meta(max_length=100_000)]
_Entries = tuple[_Text, ...]


class Command(Letter, frozen=True):
    """Carry out a command of a user for all hubs; or explain a URL. `Reply` has the number."""

    number: int
    command: _Text
    arguments: _Entries


class Reply(Letter, frozen=True):
    """The answer to a `Command`, for the user."""

    number: int
    text: _Text
    is_refused: bool


class Obey(Letter, frozen=True):
    """How the crawl is steered: all of it.

    number -- of the letter
    is_paused -- None: neither a pause nor its end was ordered in hub 0's run
    orders -- the number of all this (`Orders`)
    retry -- reasons, to be carried out once
    """

    number: int
    is_paused: bool | None
    allow: _Entries
    deny: _Entries
    orders: int
    retry: _Entries = ()


class Obeyed(Letter, frozen=True):
    """The hub has carried out `Obey`, or knows later orders of a run of hub 0 before.

    orders, is_paused -- what holds at the hub
    unanswered -- requests that it forbids, sent before, without an answer yet
    queued -- URLs that are tried again
    """

    number: int
    orders: int
    is_paused: bool
    unanswered: int = 0
    queued: int = 0


class Reached(NamedTuple):
    """What came of orders: the hubs that have obeyed, the others, and what the former have said."""

    done: tuple[int, ...]
    missing: tuple[int, ...]
    unanswered: int
    queued: int


class Obedient(Protocol):
    """The process of this hub."""

    async def order(self, command: str, arguments: Sequence[str], by: str) -> str:
        """Hub 0: carry out a command in all hubs. SteeringError if it is refused."""

    async def obey(
        self, is_paused: bool | None, added: Orders, retry: Sequence[str]
    ) -> tuple[int, int]:
        """Carry out what hub 0 has ordered: `unanswered` and `queued` of `Obeyed`.

        `added`: entries that are new here, and the number of the orders. SteeringError: it is not
        carried out, and the log says why.
        """

    async def explain(self, url: str) -> list[str]:
        """Why a URL of this hub is fetched or not. SteeringError."""


class HubSteering:
    """Steering of all hubs, at one of them.

    is_paused -- hub 0: whether it has paused all hubs; None: nothing was ordered in its run
    on_obeyed -- this hub has carried out all orders
    """

    def __init__(self, peers: Peers, server: FrontierServer, process: Obedient) -> None:
        self.is_paused: bool | None = None
        self.on_obeyed: Callable[[], None] = lambda: None
        self._peers = peers
        self._server = server
        self._process = process
        self._numbers = count(1)  # of `Obey`
        self._obeying = asyncio.Lock()
        self._questions = count(1)
        # By hub, kind and number of the answer.
        self._waiting: dict[tuple[int, type, int], asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        letters: Letters = {
            Command: lambda hub, command: self._start(self._answer(hub, command)),
            Obey: self._hear,
            Reply: self._set_answer,
            Obeyed: self._hear_obeyed,
        }
        peers.add(Listener(letters, end=self._end_session))

    def __repr__(self) -> str:
        return f"<HubSteering: {len(self._waiting)} answers are waited for>"

    # Orders

    def state(self, retry: Sequence[str] = ()) -> Obey:
        """What holds at hub 0."""
        orders, number = self._server.orders, next(self._numbers)
        entries = orders.allow, orders.deny
        return Obey(number, self.is_paused, *entries, orders.number, tuple(retry))

    async def spread(self, *, is_paused: bool | None = None, retry: Sequence[str] = ()) -> Reached:
        """Hub 0: let all hubs obey the orders that hold here. In OBEY_S at most.

        `is_paused`: None: neither a pause nor its end was ordered.
        """
        self.is_paused = self.is_paused if is_paused is None else is_paused
        letter = self.state(retry)
        others = self._peers.others
        hubs = [hub for hub in others if self._peers.is_connected(hub)]
        for hub in hubs:
            self._peers.send(hub, letter)
        answers: list[Obeyed | None] = await asyncio.gather(
            *(self._wait(hub, Obeyed, letter.number, OBEY_S) for hub in hubs)
        )
        done = {hub: each for hub, each in zip(hubs, answers, strict=True) if each is not None}
        return Reached(
            tuple(done),
            tuple(hub for hub in others if hub not in done),
            sum(each.unanswered for each in done.values()),
            sum(each.queued for each in done.values()),
        )

    def _hear_obeyed(self, hub: int, done: Obeyed) -> None:
        if self._peers.number == 0 and done.orders > self._server.orders.number:
            self._start(self._catch_up(hub, done))
        self._set_answer(hub, done)

    async def _catch_up(self, hub: int, done: Obeyed) -> None:
        """A hub knows orders of a run of hub 0 before. Their entries are kept; a pause is not."""
        self._server.orders = replace(self._server.orders, number=done.orders + 1)
        if done.is_paused and self.is_paused is None:
            self.is_paused = True
            with suppress(SteeringError):  # the log has it
                await self._process.order("pause", (), f"hub {hub}, which is paused")
        else:
            await self.spread()

    def _hear(self, hub: int, obey: Obey) -> None:
        try:
            if hub != 0:
                raise ValueError("only hub 0 gives orders")
            _added(self._server.orders, obey.allow, obey.deny)
        except ValueError as error:  # ScopeError too
            line = "Hub %d has sent orders that are not obeyed: %s"
            logger.error(line, hub, printable(str(error)[:500]))
        else:
            self._start(self._obey(obey))

    async def _obey(self, obey: Obey) -> None:
        async with self._obeying:  # in their order
            known = self._server.orders
            done = (0, 0)
            if obey.orders >= known.number:
                added = _added(known, obey.allow, obey.deny)
                added = replace(added, number=obey.orders)
                try:
                    done = await self._process.obey(obey.is_paused, added, obey.retry)
                except SteeringError:
                    return
            self.on_obeyed()
            now = self._server.orders
            self._peers.send(0, Obeyed(obey.number, now.number, now.is_paused, *done))

    # Commands and questions

    async def ask(self, hub: int, command: str, arguments: Sequence[str]) -> str:
        """What `hub` answers to a command. SteeringError."""
        number = next(self._questions)
        reply: Reply | None = None
        if self._peers.is_connected(hub):
            self._peers.send(hub, Command(number, command, tuple(arguments)))
            reply = await self._wait(hub, Reply, number, ANSWER_S)
        if reply is None:
            raise SteeringError(f"hub {hub} does not answer: try again when it is there")
        text = "\n".join(map(printable, reply.text.split("\n")))
        if reply.is_refused:
            raise SteeringError(text)
        return text

    async def explain(self, hub: int, url: str) -> list[str]:
        """Why `hub` fetches its URL or not. SteeringError."""
        return (await self.ask(hub, _EXPLAIN, [url])).split("\n")

    async def _answer(self, hub: int, command: Command) -> None:
        try:
            if command.command == _EXPLAIN and len(command.arguments) == 1:
                text = "\n".join(await self._process.explain(command.arguments[0]))
            elif self._peers.number == 0:
                by = f"scrapy ctl at hub {hub}"
                text = await self._process.order(command.command, command.arguments, by)
            else:
                raise SteeringError("only hub 0 carries out commands")
        except SteeringError as error:
            self._peers.send(hub, Reply(command.number, str(error), is_refused=True))
        else:
            self._peers.send(hub, Reply(command.number, text, is_refused=False))

    async def _wait(self, hub: int, kind: type, number: int, seconds: float) -> Any:
        """The answer of `hub`; None if none comes."""
        waiting = self._waiting[hub, kind, number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                return await waiting
        except TimeoutError:
            return None
        finally:
            del self._waiting[hub, kind, number]

    def _set_answer(self, hub: int, answer: Reply | Obeyed) -> None:
        waiting = self._waiting.get((hub, type(answer), answer.number))
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def _end_session(self, hub: int) -> None:
        for (other, _, _), waiting in self._waiting.items():
            if other == hub and not waiting.done():
                waiting.set_result(None)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _added(known: Orders, allow: Iterable[str], deny: Iterable[str]) -> Orders:
    """The entries that are not known yet. ScopeError if one cannot be used, or names a file."""
    new = [
        tuple(each for each in dict.fromkeys(entries) if each not in before)
        for entries, before in ((allow, set(known.allow)), (deny, set(known.deny)))
    ]
    for command, entries in zip(("allow", "deny"), new, strict=True):
        for entry in entries:
            check_entry(command, entry)
    return Orders(allow=new[0], deny=new[1])
