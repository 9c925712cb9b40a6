"""Questions that many ask one by one, answered together: a trip to a thread or a server for each
would cost more than the answers.

While one batch is away the next one gathers, so batches grow with the load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Together(Generic[Question, Answer]):
    """`answer` takes a batch of questions and gives as many answers, in their order.

    What it raises every one who asked gets. Memory: the questions that are not answered yet.
    """

    def __init__(self, answer: Callable[[list[Question]], Awaitable[list[Answer]]]) -> None:
        self._answer = answer
        self._waiting: list[tuple[Question, asyncio.Future[Answer]]] = []
        self._task: asyncio.Task[None] | None = None

    def ask(self, question: Question) -> asyncio.Future[Answer]:
        """Await it for the answer."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((question, future))
        if self._task is None:
            self._task = loop.create_task(self._work())
        return future

    async def _work(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                answers = await self._answer([question for question, _ in batch])
            except Exception as error:
                for _, future in batch:
                    if not future.done():  # who asked was cancelled
                        future.set_exception(error)
            else:
                for (_, future), answer in zip(batch, answers, strict=True):
                    if not future.done():
                        future.set_result(answer)
        self._task = None
