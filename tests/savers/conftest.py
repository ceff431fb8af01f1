"""Every saver of ours, called by its sync and by its async methods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.checkpoint.sqlite.aio import AsyncSqliteSaver

PLACES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda folder: InMemorySaver(),
    "sqlite": lambda folder: SqliteSaver(folder / "threads.db"),
    "sqlite in memory": lambda folder: AsyncSqliteSaver(":memory:"),
}


class SyncCalls:
    """Calls a saver's sync methods."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.saver, name)
        if name != "list":
            return method
        return lambda *args, **kw: list(method(*args, **kw))


class AsyncCalls(SyncCalls):
    """Calls a saver's async methods, each on an event loop of its own."""

    def __getattr__(self, name: str) -> Any:
        if name == "get_next_version":
            return self.saver.get_next_version
        method = getattr(self.saver, f"a{name}")

        def call(*args: Any, **kw: Any) -> Any:
            async def run() -> Any:
                if name == "list":
                    return [item async for item in method(*args, **kw)]
                return await method(*args, **kw)

            return asyncio.run(run())

        return call


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A saver of each kind."""
    saver = PLACES[request.param](tmp_path)
    yield saver
    saver.close()


@pytest.fixture(params=[SyncCalls, AsyncCalls], ids=["sync", "async"])
def calls(request: pytest.FixtureRequest, place: Any) -> Any:
    """The documented methods of a saver of each kind, sync and async."""
    return request.param(place)
