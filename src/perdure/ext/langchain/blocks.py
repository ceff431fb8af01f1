"""Chunks of a model's message as content-block events.

LangChain's own conversion pulls: it is an async generator over an async iterator of chunks.
Here chunks are pushed, and each one's events are due at once. So the generator is stepped by
hand; when it asks for a chunk that has not come yet, it stays suspended until the next push.

To find the blocks of a chunk takes LangChain longer than all else that is done with it. Most
chunks are some text and differ from the one before by nothing else: their events differ by
nothing else either. Those are made here, and the generator gets the text in one piece, before
the next chunk of another kind.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import AsyncIterator, Generator
from typing import Any

from langchain_core.messages import AIMessageChunk
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

    __slots__ = ("_asked", "_begun", "_chunks", "_ended", "_events", "_like", "_place", "_texts")

    def __init__(self, message_id: str) -> None:
        self._chunks: deque[ChatGenerationChunk] = deque()
        self._ended = False
        assert achunks_to_events is not None
        self._events: Any = achunks_to_events(self._come(), message_id=message_id)
        self._asked: Any = None
        self._begun = False
        self._like: ChatGenerationChunk | None = None
        """A chunk of text whose one event was its text; others like it need no conversion."""
        self._place = 0
        """Index of the block that its text was added to."""
        self._texts: list[str] = []
        """Of the chunks like it since."""

    def push(self, chunk: ChatGenerationChunk) -> list[Any]:
        """The events that a chunk brings."""
        text = _text_of(chunk)
        if text and self._like is not None and _are_alike(chunk, self._like):
            self._texts.append(text)
            delta = {"type": "text-delta", "text": text}
            return [{"event": "content-block-delta", "index": self._place, "delta": delta}]
        self._catch_up()
        self._chunks.append(chunk)
        events = self._step()
        place = _place_of(text, events) if text else None
        if place is not None:
            self._like, self._place = chunk, place
        return events

    def _catch_up(self) -> None:
        """Gives the generator the text whose events were made without it."""
        if self._texts and self._like is not None:
            metadata = self._like.message.response_metadata
            said = AIMessageChunk(content="".join(self._texts), response_metadata=metadata)
            self._chunks.append(ChatGenerationChunk(message=said, generation_info=self._like.generation_info))
            self._step()
        self._like, self._texts = None, []

    def end(self) -> list[Any]:
        """The events that close the message."""
        self._catch_up()
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
        if self._begun:
            return self._stepped()
        # An event loop that knew of the generators would try to close them, which only a loop can
        # do that steps them; left alone, they are thrown away as any other.
        self._begun, hooks = True, sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(None, None)
        try:
            return self._stepped()
        finally:
            sys.set_asyncgen_hooks(*hooks)

    def _stepped(self) -> list[Any]:
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


def _text_of(chunk: ChatGenerationChunk) -> str | None:
    """The text of a chunk that is nothing but some text."""
    message = chunk.message
    if type(message) is not AIMessageChunk or type(message.content) is not str:
        return None
    more = (
        message.tool_call_chunks or message.additional_kwargs or message.usage_metadata
        or message.chunk_position or message.tool_calls or message.invalid_tool_calls
    )  # fmt: skip
    return None if more else message.content


def _are_alike(chunk: ChatGenerationChunk, other: ChatGenerationChunk) -> bool:
    """True for chunks of text that differ by their text alone."""
    return (
        chunk.message.response_metadata == other.message.response_metadata
        and chunk.generation_info == other.generation_info
    )


def _place_of(text: str, events: list[Any]) -> int | None:
    """Index of the block that a chunk's text was added to; None when anything else came of it."""
    *first, last = events or [{}]
    if last.get("delta") != {"type": "text-delta", "text": text}:
        return None
    begun = [event["index"] for event in first if event["event"] != "message-start"]
    index: int = last["index"]
    return index if begun in ([], [index]) else None


class _Push:
    """Awaited, gives control back to whoever steps; goes on at the next step."""

    def __await__(self) -> Generator[None, None, None]:
        yield
