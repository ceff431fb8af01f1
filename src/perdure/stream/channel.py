"""A channel: what a transformer puts in, one consumer takes out, each item once.

Nothing is kept for a consumer who has not come: items pushed before somebody subscribes are
dropped, unless the run was asked to keep them. A consumer who finds a channel empty makes the
run go on, by one event at a time; so whoever reads sets the pace, and what others read meanwhile
waits in their channels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from perdure.stream.branches import AsyncBranches, Branches

T = TypeVar("T")


class Source(Protocol):
    """What a channel is fed by."""

    is_async: bool

    def stamp(self) -> int:
        """A number larger than all before, for the order of arrival across channels."""
        ...

    def pull(self, ready: Callable[[], bool] | None = None) -> bool:
        """Makes the run go on by one event, unless `ready()`. False when it has ended."""
        ...

    async def apull(self, ready: Callable[[], bool] | None = None, reader: Any = None) -> bool:
        """Makes the run go on until `ready()`. False when it has ended."""
        ...

    def wake(self, waiters: list[Any]) -> None:
        """Lets async consumers go on."""
        ...

    def reading(self, reader: Any) -> None:
        """An async consumer has come."""
        ...

    def done_reading(self, reader: Any) -> None:
        """An async consumer has left."""
        ...


class StreamChannel(Generic[T]):
    """A projection of a run, read by `for` or `async for`, once.

    Args:
        name: Shows the items in the run's main log, as events `custom:<name>`; without a name
            they are seen in this process only.
        maxlen: None, or a positive number.
    """

    def __init__(self, name: str | None = None, *, maxlen: int | None = None) -> None:
        if maxlen is not None and maxlen <= 0:
            raise ValueError(f"maxlen must be a positive int or None, not {maxlen!r}")
        self.name = name
        self.maxlen = maxlen
        self.items: deque[tuple[int, T]] = deque()
        """(stamp, item), for the one subscriber."""
        self.closed = False
        self.error: BaseException | None = None
        self.subscribed = False
        self.waiters: list[Any] = []
        """Futures of async consumers that found it empty."""
        self.holds = False
        """Items are kept for a moment, for somebody who may be about to subscribe."""
        self.keeps = False
        """Items are kept until somebody subscribes, whenever that is."""
        self.forward: Callable[[T], None] | None = None
        """Sends each item to the main log too."""
        self._source: Source | None = None

    # producers --------------------------------------------------------------------------

    def push(self, item: T) -> None:
        """Hands an item to the subscriber, if there is one, and to the main log, if it is named.

        Raises:
            RuntimeError: The channel is closed, and somebody reads it.
        """
        if self.subscribed or self.holds or self.keeps:
            if self.closed:
                raise RuntimeError("Cannot push to a closed StreamChannel")
            source = self._source
            self.items.append((source.stamp() if source is not None else 0, item))
            if self.waiters and source is not None:
                source.wake(self.waiters)
        if self.forward is not None:
            self.forward(item)

    def close(self) -> None:
        """No more items come. Does nothing the second time."""
        self._end(None)

    def fail(self, error: BaseException) -> None:
        """The subscriber gets the items before, then this error. Does nothing after the end."""
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        if self.closed:
            return
        self.error = error
        self.closed = True
        if self.waiters and self._source is not None:
            self._source.wake(self.waiters)

    # consumers --------------------------------------------------------------------------

    def __iter__(self) -> Iterator[T]:
        self.subscribe(is_async=False)
        return Cursor(self)

    def __aiter__(self) -> AsyncIterator[T]:
        self.subscribe(is_async=True)
        return AsyncCursor(self)

    def tee(self, n: int = 2) -> tuple[Iterator[T], ...]:
        """Iterators that each get every item from now on."""
        return Branches(_checked(n), lambda: iter(self)).branches

    def atee(self, n: int = 2) -> tuple[AsyncIterator[T], ...]:
        """Async iterators that each get every item, or the error that ends them."""
        return AsyncBranches(_checked(n), lambda: aiter(self)).branches

    def ready(self) -> bool:
        """True when a consumer need not wait."""
        return bool(self.items) or self.closed

    def release(self) -> None:
        """Stops keeping items for somebody who may yet come."""
        self.holds = False
        if not (self.subscribed or self.keeps):
            self.items.clear()

    def unsubscribe(self) -> None:
        """Gives the subscription back; what was not read is there for the next subscriber."""
        self.subscribed = False

    # wiring -----------------------------------------------------------------------------

    def bind(self, source: Source) -> None:
        """Names what feeds the channel. Raises RuntimeError the second time."""
        if self._source is not None:
            raise RuntimeError("this StreamChannel is already bound to a run; make a new one for each run")
        self._source = source

    def subscribe(self, *, is_async: bool) -> None:
        """Takes the one subscription.

        Raises:
            TypeError: No run feeds the channel, or one of the other kind.
            RuntimeError: It is taken.
        """
        source = self.source
        if source.is_async is not is_async:
            kind, way = ("async", "async for") if source.is_async else ("sync", "for")
            raise TypeError(f"this StreamChannel is bound to {kind} mode; read it with `{way}`")
        if self.subscribed:
            raise RuntimeError(
                "this StreamChannel already has a subscriber; a projection is read once, use tee() or atee() "
                "for several readers"
            )
        self.subscribed = True

    @property
    def source(self) -> Source:
        """What feeds the channel. Raises TypeError when nothing does."""
        if self._source is None:
            raise TypeError(
                "this StreamChannel has not been bound to a run; return it from a transformer's init()"
            )
        return self._source


def _checked(n: int) -> int:
    if n < 1:
        raise ValueError(f"a channel is split into at least 1 branch, not {n!r}")
    return n


class Cursor(Iterator[T]):
    """Reads a channel of a sync run."""

    __slots__ = ("channel",)

    def __init__(self, channel: StreamChannel[T]) -> None:
        self.channel = channel

    def __next__(self) -> T:
        channel = self.channel
        while True:
            ended = channel.closed
            try:
                return channel.items.popleft()[1]
            except IndexError:
                pass
            if not ended:
                ended = not channel.source.pull(channel.ready) and not channel.ready()
                if not ended:
                    continue
            if channel.error is not None:
                raise channel.error
            raise StopIteration


class AsyncCursor(AsyncIterator[T]):
    """Reads a channel of an async run."""

    __slots__ = ("__weakref__", "channel")

    def __init__(self, channel: StreamChannel[T]) -> None:
        self.channel = channel
        channel.source.reading(self)

    async def __anext__(self) -> T:
        channel = self.channel
        while not channel.items:
            if not channel.closed and (await channel.source.apull(channel.ready, self) or channel.ready()):
                continue
            channel.source.done_reading(self)
            if channel.error is not None:
                raise channel.error
            raise StopAsyncIteration
        return channel.items.popleft()[1]


AnyChannel = StreamChannel[Any]
