"""Chunks of a model's message as content-block events.

LangChain's own conversion pulls: it is an async generator over an async iterator of chunks.
Here chunks are pushed, and each one's events are due at once. So the generator is stepped by
hand; when it asks for a chunk that has not come yet, it stays suspended until the next push.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Generator
from typing import Any

from langchain_core.outputs import ChatGenerationChunk

try:
    from langchain_core.language_models._compat_bridge import achunks_to_events
except ImportError:  # An older LangChain: what a model says is shown when it has said all.
    achunks_to_events = None  # type: ignore[assignment]


def blocks_of(message_id: str) -> Blocks | None:
    """The events of a message; None where LangChain cannot make them."""
    return None if achunks_to_events is None else Blocks(message_id)


class Blocks:
    """The events of one message, chunk by chunk."""

    __slots__ = ("_asked", "_chunks", "_ended", "_events")

    def __init__(self, message_id: str) -> None:
        self._chunks: deque[ChatGenerationChunk] = deque()
        self._ended = False
        assert achunks_to_events is not None
        self._events: Any = achunks_to_events(self._come(), message_id=message_id)
        self._asked: Any = None

    def push(self, chunk: ChatGenerationChunk) -> list[Any]:
        """The events that a chunk brings."""
        self._chunks.append(chunk)
        return self._step()

    def end(self) -> list[Any]:
        """The events that close the message."""
        self._ended = True
        return self._step()

    def drop(self) -> None:
        """Gives the message up."""
        try:
            if self._asked is not None:
                self._asked.throw(GeneratorExit())
        except (GeneratorExit, StopIteration, StopAsyncIteration):
            self._asked = None

    async def _come(self) -> AsyncIterator[ChatGenerationChunk]:
        while not self._ended or self._chunks:
            if self._chunks:
                yield self._chunks.popleft()
            else:
                await _Push()

    def _step(self) -> list[Any]:
        found: list[Any] = []
        while True:
            asked = self._asked or self._events.__anext__()
            self._asked = None
            try:
                asked.send(None)
            except StopIteration as stop:
                found.append(stop.value)
            except StopAsyncIteration:
                return found
            else:
                self._asked = asked
                return found


class _Push:
    """Awaited, gives control back to whoever steps; goes on at the next step."""

    def __await__(self) -> Generator[None, None, None]:
        yield
