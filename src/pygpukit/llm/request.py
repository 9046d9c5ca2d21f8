"""A text that an engine generates, as its parts arrive."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pygpukit.core.errors import InvalidValueError
from pygpukit.scheduler.errors import DeadlineMissed, TaskCancelled, TaskError

if TYPE_CHECKING:
    from pygpukit.llm.detokenizer import Detokenizer
    from pygpukit.llm.engine import Engine
    from pygpukit.llm.stop_strings import StopStrings

    Piece = str | int


class TokenLogprob(NamedTuple):
    """How likely a token was, and which ones were the likeliest."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]  # ids with their logprobs, largest first


class Request:
    """Made by ``Engine.submit``; any number of threads and event loops may read it.

    Iterating gives pieces of text, or token ids where the prompt was ids, as they come; ``async
    for`` does the same on an event loop. Either ends after a cancellation, and raises when the
    request failed or missed its deadline.
    """

    _engine: Engine  # which lives as long as one of its requests
    _id: int

    def __init__(
        self, prompt_ids: Sequence[int], text: Detokenizer | None, stop: StopStrings
    ) -> None:
        self.prompt_ids = tuple(prompt_ids)
        self.tokens: list[int] = []
        self.logprobs: list[TokenLogprob] = []  # one per token, where they were asked for
        self.finish_reason: str | None = None  # stop, length, cancelled, deadline, failed
        self.time_to_first_token: float | None = None  # seconds from submission
        self._text = text
        self._stop = stop
        self._pieces: list[Piece] = []
        self._error = ""
        self._changed = threading.Condition()
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    @property
    def done(self) -> bool:
        """True when no more tokens come."""
        return self.finish_reason is not None

    @property
    def text(self) -> str:
        """The text so far. For a prompt of text."""
        if self._text is None:
            raise InvalidValueError("Request.text: the prompt was token ids; see tokens")
        return "".join(map(str, self._pieces))

    def cancel(self) -> None:
        """Ends it before the engine's next step, which frees all it holds."""
        self._engine._cancel(self._id)

    def result(self, timeout: float | None = None) -> str | list[int]:
        """All of it: text for text, ids for ids. TimeoutError when it takes longer."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.done, timeout):
                raise TimeoutError(f"Request.result: not done after {timeout} s")
        return self._result()

    def __iter__(self) -> Iterator[Piece]:
        num_given = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda n=num_given: self.done or len(self._pieces) > n)  # type: ignore[misc]
                new = self._pieces[num_given:]
            yield from new
            num_given += len(new)
            if not new:
                break
        self._raise_failure()

    async def __aiter__(self) -> AsyncIterator[Piece]:
        num_given = 0
        while True:
            await self._wait(lambda n=num_given: self.done or len(self._pieces) > n)  # type: ignore[misc]
            new = self._pieces[num_given:]
            for piece in new:
                yield piece
            num_given += len(new)
            if not new:
                break
        self._raise_failure()

    def __await__(self) -> Generator[Any, None, str | list[int]]:
        """``await request`` is ``result()`` without blocking the event loop."""
        return self._async_result().__await__()

    async def _async_result(self) -> str | list[int]:
        await self._wait(lambda: self.done)
        return self._result()

    async def _wait(self, ready: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with self._changed:
                if ready():
                    return
                woken: asyncio.Future[None] = loop.create_future()
                self._waiters.append((loop, woken))
            await woken

    def _result(self) -> str | list[int]:
        self._raise_failure()
        if self.finish_reason == "cancelled":
            raise TaskCancelled(f"Request: cancelled after {len(self.tokens)} tokens")
        return list(self.tokens) if self._text is None else self.text

    def _raise_failure(self) -> None:
        if self.finish_reason == "deadline":
            raise DeadlineMissed(f"Request: {len(self.tokens)} tokens when its deadline passed")
        if self.finish_reason == "failed":
            raise TaskError(f"Request: {self._error}")

    # --- the engine's side -----------------------------------------------------------------------

    def _deliver(self, tokens: Sequence[int], scores: Sequence[Any]) -> None:
        with self._changed:
            if self.done:  # by a stop string, ahead of the engine
                return
            for i, token in enumerate(tokens):
                self.tokens.append(token)
                if scores:
                    logprob, top = scores[i]
                    self.logprobs.append(TokenLogprob(token, logprob, tuple(top)))
                if self._text is None:
                    self._pieces.append(token)
                    continue
                if piece := self._stop.push(self._text.push(token)):
                    self._pieces.append(piece)
                if self._stop.matched is not None:
                    self.finish_reason = "stop"
                    self._engine._cancel(self._id)
                    break
            self._wake()

    def _finish(self, reason: str, error: str = "") -> None:
        with self._changed:
            if self.done:
                return
            if self._text is not None and reason != "failed":
                rest = self._stop.push(self._text.finish()) + self._stop.finish()
                if rest:
                    self._pieces.append(rest)
            self._error = error
            self.finish_reason = reason
            self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()
        waiters, self._waiters = self._waiters, []
        for loop, woken in waiters:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_set, woken)


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


__all__ = ["Request", "TokenLogprob"]
