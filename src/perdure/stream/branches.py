"""One iterator read by several: each branch gets every item, and the error that ends it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class _Shared(Generic[T]):
    """What the branches have in common."""

    def __init__(self, n: int) -> None:
        self.buffers: list[deque[T]] = [deque() for _ in range(n)]
        self.end: BaseException | None = None

    def put(self, item: T) -> None:
        """Gives an item to every branch."""
        for buffer in self.buffers:
            buffer.append(item)


class Branches(_Shared[T]):
    """Splits an iterator. Branches may be read from several threads."""

    def __init__(self, n: int, start: Callable[[], Iterator[T]]) -> None:
        super().__init__(n)
        self.upstream = start()
        self.lock = threading.Lock()
        self.branches: tuple[Iterator[T], ...] = tuple(_Branch(self, buffer) for buffer in self.buffers)

    def advance(self, buffer: deque[T]) -> None:
        """Reads one item, unless the branch has one by now. Raises what ended the iterator."""
        with self.lock:
            if buffer:
                return
            if self.end is None:
                try:
                    self.put(next(self.upstream))
                    return
                except BaseException as error:
                    self.end = error
            raise self.end


class _Branch(Iterator[T]):
    def __init__(self, shared: Branches[T], buffer: deque[T]) -> None:
        self.shared = shared
        self.buffer = buffer

    def __next__(self) -> T:
        while not self.buffer:
            self.shared.advance(self.buffer)
        return self.buffer.popleft()


class AsyncBranches(_Shared[T]):
    """Splits an async iterator."""

    def __init__(self, n: int, start: Callable[[], AsyncIterator[T]]) -> None:
        super().__init__(n)
        self.upstream = start()
        self.lock = asyncio.Lock()
        self.branches: tuple[AsyncIterator[T], ...] = tuple(
            _AsyncBranch(self, buffer) for buffer in self.buffers
        )

    async def advance(self, buffer: deque[Any]) -> None:
        """Reads one item, unless the branch has one by now. Raises what ended the iterator. A
        branch that is cancelled while it reads leaves the others as they are."""
        async with self.lock:
            if buffer:
                return
            if self.end is None:
                try:
                    self.put(await anext(self.upstream))
                    return
                except (Exception, StopAsyncIteration) as error:
                    self.end = error
            raise self.end


class _AsyncBranch(AsyncIterator[T]):
    def __init__(self, shared: AsyncBranches[T], buffer: deque[T]) -> None:
        self.shared = shared
        self.buffer = buffer

    async def __anext__(self) -> T:
        while not self.buffer:
            await self.shared.advance(self.buffer)
        return self.buffer.popleft()
