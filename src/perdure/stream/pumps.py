"""What makes a run go on by one item: takes it from the engine, gives it to the router."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextvars import copy_context
from typing import Any, TypeAlias

from perdure.errors import GraphBubbleUp
from perdure.stream.feed import NOTES, Feed
from perdure.stream.result import Result
from perdure.stream.router import EventRouter

logger = logging.getLogger("perdure")

Part: TypeAlias = Mapping[str, Any]
Parts: TypeAlias = "Part | list[Part]"
"""Items of `stream(version="v2")`: one, or several that came together."""


class Pump:
    """Makes a sync run go on. Called by one thread at a time."""

    def __init__(self, parts: Iterator[Parts], router: EventRouter, result: Result) -> None:
        self._parts = parts
        self._waiting: deque[Part] = deque()
        self._router = router
        self._feed = Feed(router, result)
        self._context = copy_context()
        self._stopped = False

    def __call__(self) -> bool:
        """Takes one item. False when the run has ended: by its end, its error, or an abort.

        Raises:
            BaseException: KeyboardInterrupt and the like; the run has failed with it.
        """
        if self._router.ended or self._stopped:
            return False
        try:
            if not self._waiting and not self._took():
                self._close()
                return False
            part = self._waiting.popleft()
            if part["type"] in NOTES:
                self._router.note(*self._feed.note(part))
            else:
                self._router.push(self._feed.take(part))
        except BaseException as error:
            self._fail(_no_end(error, StopIteration))
        if self._stopped:
            self._close()
        return not self._router.ended

    def _took(self) -> bool:
        """Takes what comes next from the engine. False when nothing does."""
        parts = self._context.run(next, self._parts, None)
        if parts is None:
            return False
        _add(self._waiting, parts)
        return True

    def abort(self) -> None:
        """Stops the run; when it is delivering an event to this very code, right after that."""
        self._stopped = True
        if not self._router.ended:
            self._router.turn.alone(self._close)

    def _close(self) -> None:
        if self._router.ended:
            return
        try:
            self._close_parts()
        except Exception as error:
            logger.debug("closing an aborted run raised %r", error)
        try:
            self._router.close()
        except Exception:
            logger.debug("a finaliser failed; the projections carry its error", exc_info=True)

    def _fail(self, error: BaseException) -> None:
        try:
            self._close_parts()
        except Exception as second:
            logger.debug("closing a failed run raised %r", second)
        self._router.fail(error)
        if not isinstance(error, (Exception, GraphBubbleUp)):
            raise error

    def _close_parts(self) -> None:
        close = getattr(self._parts, "close", None)
        if close is not None:
            self._context.run(close)


class AsyncPump:
    """Makes an async run go on. Called by one task at a time."""

    def __init__(self, parts: AsyncIterator[Parts], router: EventRouter, result: Result) -> None:
        self._parts = parts
        self._waiting: deque[Part] = deque()
        self._router = router
        self._feed = Feed(router, result)
        self._stopped = False
        self._raised: BaseException | None = None
        """By an item that was taken at once; the run is to fail with it."""
        self._context = router.aturn.context = copy_context()
        router.aturn.on_abandoned = self._abandoned
        router.aturn.at_once = self.at_once

    async def __call__(self) -> bool:
        """Takes one item. False when the run has ended: by its end, its error, or an abort."""
        if self._router.ended or self._stopped:
            return False
        try:
            if self._raised is not None:
                raise self._raised
            if not self._waiting and not await self._took():
                await self._close()
                return False
            part = self._waiting.popleft()
            if part["type"] in NOTES:
                await self._router.anote(*self._feed.note(part))
            else:
                await self._router.apush(self._feed.take(part))
        except asyncio.CancelledError as error:
            if not self._stopped:
                await self._fail(error)
            raise
        except BaseException as error:
            await self._fail(_no_end(error, StopAsyncIteration))
        return not self._router.ended

    async def _took(self) -> bool:
        """Takes what comes next from the engine. False when nothing does."""
        try:
            _add(self._waiting, await anext(self._parts))
        except StopAsyncIteration:
            return False
        return True

    def at_once(self) -> bool:
        """Takes an item that came with one before, if there is any and no transformer would wait."""
        if not self._waiting or self._router.ended or self._stopped or self._raised is not None:
            return False
        step = self._router.apush(self._feed.take(self._waiting.popleft()))
        try:
            self._context.run(step.send, None)
        except StopIteration:
            pass
        except BaseException as error:
            self._raised = error
        return True

    async def abort(self) -> None:
        """Stops the run: what runs is cancelled."""
        self._stopped = True
        await self._router.aturn.stop()
        await self._close()

    async def _abandoned(self) -> None:
        """The last reader was cancelled. Others who come later are told so."""
        self._stopped = True
        await self._router.aturn.stop()
        await self._fail(
            RuntimeError(
                "the run was stopped, because the only one who read it was cancelled (a time limit around a "
                "single read does that too)"
            )
        )

    async def _close(self) -> None:
        if self._router.ended:
            return
        try:
            await self._close_parts()
        except Exception as error:
            logger.debug("closing an aborted run raised %r", error)
        try:
            await self._router.aclose()
        except Exception:
            logger.debug("a finaliser failed; the projections carry its error", exc_info=True)

    async def _fail(self, error: BaseException) -> None:
        if self._router.ended:
            return
        try:
            await self._close_parts()
        except Exception as second:
            logger.debug("closing a failed run raised %r", second)
        await self._router.afail(error)

    async def _close_parts(self) -> None:
        aclose = getattr(self._parts, "aclose", None)
        if aclose is not None:
            await aclose()


def _add(waiting: deque[Part], parts: Parts) -> None:
    if isinstance(parts, list):
        waiting.extend(parts)
    else:
        waiting.append(parts)


def _no_end(error: BaseException, end: type[BaseException]) -> BaseException:
    """The error, or, where readers would take it for the end of what they read, one that is not so
    taken. The engine raises none such: it is a transformer's."""
    if not isinstance(error, end):
        return error
    failed = RuntimeError(f"a transformer raised {end.__name__}")
    failed.__cause__ = error
    return failed
