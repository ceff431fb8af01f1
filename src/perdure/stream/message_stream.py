"""One message of a model as it comes, where LangChain's classes for that are not installed.

The objects have the members of `langchain_core`'s `ChatModelStream`: `text`, `reasoning` and
`tool_calls` to iterate while the model writes, or to read whole; `output` for the message. Every
iterator starts at the first delta, and there may be any number, before and after the end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any

from perdure.stream.message_assembly import Assembly

Request = Callable[[], bool]
ARequest = Callable[[], Awaitable[bool]]


class _Message(Assembly):
    """What the objects of both kinds have."""

    def __init__(
        self, *, namespace: list[str] | None = None, node: str | None = None, message_id: str | None = None
    ) -> None:
        super().__init__(message_id)
        self.namespace = namespace or []
        self.node = node

    @property
    def has_events(self) -> bool:
        """True once the message has begun."""
        return bool(self.events)

    @property
    def output_message(self) -> Any:
        """The message, or None while it is not finished."""
        return self.message


class Projection:
    """One kind of a message's deltas, for sync readers."""

    def __init__(self, stream: ChatModelStream, deltas: list[Any], whole: Callable[[], Any]) -> None:
        self._stream = stream
        self._deltas = deltas
        self._whole = whole

    def __iter__(self) -> Iterator[Any]:
        return self._stream.replay(self._deltas)

    def get(self) -> Any:
        """All of it, once the message is finished."""
        self._stream.finish()
        return self._whole()

    def __bool__(self) -> bool:
        return bool(self._deltas)

    def __str__(self) -> str:
        return str(self.get())

    def __repr__(self) -> str:
        return repr(self._whole())


class ChatModelStream(_Message):
    """A message of a sync run."""

    _more: Request | None = None

    def set_request_more(self, more: Request | None) -> None:
        """Names what makes the run go on by one event; it returns False at the end."""
        self._more = more

    bind_pump = set_request_more

    @property
    def text(self) -> Projection:
        """The text: str deltas, or `str(message.text)`."""
        return Projection(self, self.text_deltas, self.whole_text)

    @property
    def reasoning(self) -> Projection:
        """The reasoning: str deltas, or all of it by `str()`."""
        return Projection(self, self.reasoning_deltas, self.whole_reasoning)

    @property
    def tool_calls(self) -> Projection:
        """Chunks of tool calls as they are written; `.get()` gives the calls."""
        return Projection(self, self.call_deltas, self.whole_calls)

    @property
    def output(self) -> Any:
        """The message. Raises RuntimeError when the run ended before it was finished."""
        self.finish()
        if self.message is None:
            raise RuntimeError("the run ended before this message was finished")
        return self.message

    def __iter__(self) -> Iterator[Any]:
        return self.replay(self.events)

    def finish(self) -> None:
        """Lets the run go on until the message is finished. Raises what it failed with."""
        while not self.done and self._more is not None and self._more():
            pass
        if self.error is not None:
            raise self.error

    def replay(self, buffer: list[Any]) -> Iterator[Any]:
        """What a buffer holds and what still comes into it."""
        place = 0
        while True:
            done = self.done
            while place < len(buffer):
                yield buffer[place]
                place += 1
            if done or self._more is None or (not self._more() and place == len(buffer)):
                break
        if self.error is not None:
            raise self.error


class AsyncProjection:
    """One kind of a message's deltas, for async readers; awaiting it gives all of it."""

    def __init__(self, stream: AsyncChatModelStream, deltas: list[Any], whole: Callable[[], Any]) -> None:
        self._stream = stream
        self._deltas = deltas
        self._whole = whole

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._stream.replay(self._deltas)

    async def get(self) -> Any:
        """All of it, once the message is finished."""
        await self._stream.finish()
        return self._whole()

    def __await__(self) -> Generator[Any, None, Any]:
        return self.get().__await__()

    def __bool__(self) -> bool:
        return bool(self._deltas)

    def __repr__(self) -> str:
        return repr(self._whole())


class _Output:
    def __init__(self, stream: AsyncChatModelStream) -> None:
        self._stream = stream

    async def _get(self) -> Any:
        await self._stream.finish()
        return self._stream.message

    def __await__(self) -> Generator[Any, None, Any]:
        return self._get().__await__()


class AsyncChatModelStream(_Message):
    """A message of an async run."""

    _more: ARequest | None = None

    def set_arequest_more(self, more: ARequest | None) -> None:
        """Names the coroutine function that makes the run go on by one event."""
        self._more = more

    @property
    def text(self) -> AsyncProjection:
        """The text: str deltas, or all of it by `await`."""
        return AsyncProjection(self, self.text_deltas, self.whole_text)

    @property
    def reasoning(self) -> AsyncProjection:
        """The reasoning: str deltas, or all of it by `await`."""
        return AsyncProjection(self, self.reasoning_deltas, self.whole_reasoning)

    @property
    def tool_calls(self) -> AsyncProjection:
        """Chunks of tool calls as they are written, or the calls by `await`."""
        return AsyncProjection(self, self.call_deltas, self.whole_calls)

    @property
    def output(self) -> Awaitable[Any]:
        """The message; None when the run ended before it was finished."""
        return _Output(self)

    def __await__(self) -> Generator[Any, None, Any]:
        return self.output.__await__()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self.replay(self.events)

    async def finish(self) -> None:
        """Lets the run go on until the message is finished. Raises what it failed with."""
        while not self.done and self._more is not None and await self._more():
            pass
        if self.error is not None:
            raise self.error

    async def replay(self, buffer: list[Any]) -> AsyncIterator[Any]:
        """What a buffer holds and what still comes into it."""
        place = 0
        while True:
            while place < len(buffer):
                yield buffer[place]
                place += 1
            if self.done or self._more is None:
                break
            if not await self._more() and place == len(buffer):
                break
        if self.error is not None:
            raise self.error

    async def aclose(self) -> None:
        """Reads no further; the run is left alone."""
        self._more = None

    async def __aenter__(self) -> AsyncChatModelStream:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
