"""Run objects by one interface: `runs.open(workflow, input, ...)` gives a run whose answers are
properties and whose projections are iterated by `for`, whether the run is sync or async.

The async ones live on one event loop, which runs only while something is asked of them.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import pytest

from perdure.graph import START, StateGraph
from perdure.stream import AsyncGraphRunStream, StreamChannel


class State(TypedDict, total=False):
    a: Annotated[list, operator.add]
    b: int


class SyncRuns:
    """Opens runs by `stream_events`."""

    is_async = False

    def open(self, workflow: Any, input: Any, config: Any = None, **kw: Any) -> Any:
        return workflow.stream_events(input, config, version="v3", **kw)

    def close(self) -> None: ...


class AsyncRuns:
    """Opens runs by `astream_events`."""

    is_async = True

    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    def open(self, workflow: Any, input: Any, config: Any = None, **kw: Any) -> Any:
        async def opened() -> Any:
            return await workflow.astream_events(input, config, version="v3", **kw)

        return Held(self.runner, self.runner.run(opened()))

    def close(self) -> None:
        self.runner.close()


class Held:
    """An async run, handle or message, asked from sync code."""

    def __init__(self, runner: asyncio.Runner, inner: Any) -> None:
        self.runner = runner
        self.inner = inner

    def ask(self, awaitable: Any) -> Any:
        async def answered() -> Any:
            return await awaitable

        return self.runner.run(answered())

    def __iter__(self) -> Iterator[Any]:
        return Items(self, aiter(self.inner))

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if name in ("output", "interrupted", "interrupts") and callable(value):
            return self.ask(value())
        if name == "output":
            return self.ask(value)
        if name == "abort":
            return lambda: self.ask(value())
        return self.wrap(value)

    def wrap(self, value: Any) -> Any:
        needs_loop = isinstance(value, (AsyncGraphRunStream, StreamChannel)) or hasattr(value, "__await__")
        return Held(self.runner, value) if needs_loop or hasattr(value, "set_arequest_more") else value

    def get(self) -> Any:
        return self.ask(self.inner)

    def __str__(self) -> str:
        return str(self.ask(self.inner))

    def __enter__(self) -> Held:
        self.ask(self.inner.__aenter__())
        return self

    def __exit__(self, *exc: object) -> None:
        self.ask(self.inner.__aexit__(*exc))


class Items(Iterator[Any]):
    """An async iterator, read from sync code."""

    def __init__(self, held: Held, items: Any) -> None:
        self.held = held
        self.items = items

    def __next__(self) -> Any:
        try:
            return self.held.wrap(self.held.ask(anext(self.items)))
        except StopAsyncIteration:
            raise StopIteration from None


@pytest.fixture(params=[SyncRuns, AsyncRuns], ids=["sync", "async"])
def runs(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Opens runs as objects: sync ones, then async ones."""
    opener = request.param()
    yield opener
    opener.close()


@pytest.fixture
def chain() -> Any:
    """Makes a graph of (name, function) one after the other, over lists `a` and a number `b`."""

    def make(*nodes: Any, schema: Any = State, saver: Any = None, output: Any = None, **kw: Any) -> Any:
        graph: Any = StateGraph(schema, output_schema=output)
        before = START
        for name, function in nodes:
            graph.add_node(name, function)
            graph.add_edge(before, name)
            before = name
        return graph.compile(checkpointer=saver, **kw)

    return make
