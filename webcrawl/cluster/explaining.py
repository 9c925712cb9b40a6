"""Asks the node that has a URL's shard why the URL was fetched or not: `scrapy explain`.

The answer is made by `here`, in the node that has the shard; no node passes a question on. Both
messages are data that is tested: a question of another crawl or about another shard is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from webcrawl.cluster.agreement.records import UNREADABLE, encode
from webcrawl.cluster.bus import Bus, BusError
from webcrawl.cluster.errors import NoAnswerError
from webcrawl.parse.urls import MAX_LENGTH

TIMEOUT_S: Final = 10.0
LINES_MAX: Final = 200
_LINE_MAX: Final = 20_000  # characters: a line may have two URLs


class Question(Struct, frozen=True):
    """Why `url`, which is canonical?"""

    crawl: Annotated[str, Meta(max_length=200)]
    url: Annotated[str, Meta(max_length=MAX_LENGTH)]


class Answer(Struct, frozen=True):
    """`problem`: why there are no lines, in one line for the user."""

    lines: Annotated[list[Annotated[str, Meta(max_length=_LINE_MAX)]], Meta(max_length=LINES_MAX)]
    problem: Annotated[str, Meta(max_length=_LINE_MAX)] = ""


class Explanations:
    """Questions and answers of one node.

    here -- explains a URL of a shard of this node, and tests the URL again. NoAnswerError
    """

    def __init__(self, bus: Bus, node: str, crawl: Callable[[], str]) -> None:
        self.here: Callable[[str], Awaitable[list[str]]] | None = None
        self._bus = bus
        self._node = node
        self._crawl = crawl

    async def open(self) -> None:
        """Answer from now on."""
        await self._bus.answer(_subject(self._node), self._answer)

    async def _answer(self, data: bytes) -> bytes:
        try:
            question = msgspec.msgpack.decode(data, type=Question)
        except UNREADABLE:
            return encode(Answer([], "the question cannot be read: run one version on all nodes"))
        if question.crawl != self._crawl():
            return encode(Answer([], "it is of another crawl"))
        if self.here is None:
            return encode(Answer([], "it has no spider yet, or none any more"))
        try:
            lines = await self.here(question.url)
        except NoAnswerError as error:
            return encode(Answer([], str(error)[:_LINE_MAX]))
        return encode(Answer([line[:_LINE_MAX] for line in lines[:LINES_MAX]]))

    async def ask(self, node: str, url: str) -> list[str]:
        """The lines of `node` about canonical `url`. NoAnswerError, within TIMEOUT_S."""
        question = encode(Question(self._crawl(), url))
        try:
            data = await self._bus.request(_subject(node), question, TIMEOUT_S)
            answer = msgspec.msgpack.decode(data, type=Answer)
        except BusError as error:
            raise NoAnswerError(f"node {node} gave no answer: {error}") from None
        except UNREADABLE:
            raise NoAnswerError(f"the answer of node {node} cannot be read") from None
        if answer.problem:
            raise NoAnswerError(f"node {node}: {answer.problem}")
        return answer.lines


def _subject(node: str) -> str:
    return f"explain.{node}"
