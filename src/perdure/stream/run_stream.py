"""A run as an object: projections to iterate, `output` to ask for, `abort()` to stop it.

Nothing runs until something is read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from perdure.stream.channel import StreamChannel
from perdure.stream.interleave import interleave
from perdure.stream.lifecycle import SubgraphStatus
from perdure.stream.protocol import ProtocolEvent
from perdure.stream.pumps import AsyncPump, Pump
from perdure.stream.result import Result
from perdure.stream.router import EventRouter

_ANSWERS = ("output", "interrupted", "interrupts")


class _RunView:
    """What run objects of both kinds have: projections as attributes, and all in `extensions`."""

    values: StreamChannel[Any]
    messages: StreamChannel[Any]
    lifecycle: StreamChannel[Any]
    subgraphs: StreamChannel[Any]

    def __init__(self, router: EventRouter, result: Result | None = None) -> None:
        self._router = router
        self._result = result or Result(router.scope)
        self.extensions: Mapping[str, Any] = MappingProxyType(router.extensions)
        """Every projection by name."""
        for key in router.native_keys:
            self.__dict__[key] = router.extensions[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_router" not in self.__dict__:
            raise AttributeError(name)
        error = self._router.error
        if name in _ANSWERS and isinstance(error, AttributeError):
            raise error  # Raised by user code, and not about this object.
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r} (registered projections: "
            f"{', '.join(self.extensions)})"
        )

    def _ended(self) -> bool:
        return self._router.ended

    def _outcome(self) -> Result:
        """The result of the ended run. Raises its error."""
        if self._router.error is not None:
            raise self._router.error
        return self._result


class GraphRunStream(_RunView):
    """A run of a workflow, for sync callers. Made by `stream_events(version="v3")`.

    `for event in run` reads the protocol's events; `run.values`, `run.messages`,
    `run.subgraphs`, `run.lifecycle` and the projections of transformers read what each is for.
    As a context manager it stops the run at the end of the block.

    Args:
        parts: Items of `stream(version="v2", subgraphs=True)`; None for a view whose router is
            fed from elsewhere.
        router: Feeds the projections.
        wire_pump: Whether readers make `parts` go on.
    """

    def __init__(
        self,
        parts: Iterator[Any] | None,
        router: EventRouter,
        *,
        wire_pump: bool = True,
        result: Result | None = None,
    ) -> None:
        super().__init__(router, result)
        self._pump = Pump(parts, router, self._result) if parts is not None else None
        if self._pump is not None and wire_pump:
            router.bind_pump(self._pump)

    def __iter__(self) -> Iterator[ProtocolEvent]:
        return iter(self._router.events)

    def _run_to_end(self) -> Result:
        while not self._ended() and self._router.pull(self._ended):
            pass
        return self._outcome()

    @property
    def output(self) -> Any:
        """What the run returned; the state so far when it is paused. Runs to the end.

        Raises:
            Exception: What ended the run.
        """
        return self._run_to_end().output

    @property
    def interrupted(self) -> bool:
        """Whether the run is paused: at a question or at a breakpoint. Runs to the end."""
        return self._run_to_end().interrupted

    @property
    def interrupts(self) -> list[Any]:
        """The questions that the run is paused on. Runs to the end."""
        return list(self._run_to_end().interrupts)

    def interleave(self, *names: str) -> Iterator[tuple[str, Any]]:
        """Reads several projections as one: (name, item) in the order of arrival.

        Raises:
            KeyError: There is no such projection.
            TypeError: It is no channel of a sync run.
            RuntimeError: It is being read already.
        """
        return interleave(self._router, names)

    def abort(self) -> None:
        """Stops the run before its next superstep, and waits for what runs now. What finished
        is kept; the thread can go on later. Does nothing the second time."""
        if self._pump is not None:
            self._pump.abort()
        else:
            self._router.close()

    def __enter__(self) -> GraphRunStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()


class AsyncGraphRunStream(_RunView):
    """`GraphRunStream` for async callers: projections are read by `async for`, answers awaited."""

    def __init__(
        self,
        parts: AsyncIterator[Any] | None,
        router: EventRouter,
        *,
        wire_pump: bool = True,
        result: Result | None = None,
    ) -> None:
        super().__init__(router, result)
        self._pump = AsyncPump(parts, router, self._result) if parts is not None else None
        if self._pump is not None and wire_pump:
            router.bind_apump(self._pump)

    def __aiter__(self) -> AsyncIterator[ProtocolEvent]:
        return aiter(self._router.events)

    async def _run_to_end(self) -> Result:
        while not self._ended() and await self._router.apull(self._ended):
            pass
        return self._outcome()

    async def output(self) -> Any:
        """What the run returned; the state so far when it is paused. Runs to the end.

        Raises:
            Exception: What ended the run.
        """
        return (await self._run_to_end()).output

    async def interrupted(self) -> bool:
        """Whether the run is paused: at a question or at a breakpoint. Runs to the end."""
        return (await self._run_to_end()).interrupted

    async def interrupts(self) -> list[Any]:
        """The questions that the run is paused on. Runs to the end."""
        return list((await self._run_to_end()).interrupts)

    async def abort(self) -> None:
        """Stops the run where it is: running nodes are cancelled, at any depth. What finished is
        kept; the thread can go on later. Does nothing the second time."""
        if self._pump is not None:
            await self._pump.abort()
        else:
            await self._router.aclose()

    async def __aenter__(self) -> AsyncGraphRunStream:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.abort()


class _Called:
    """What is known of a run that another run called."""

    path: tuple[str, ...]
    """Its namespace."""
    graph_name: str
    trigger_call_id: str
    """Id of the task that called it."""
    status: SubgraphStatus = "started"
    error: str | None = None
    """What it failed with."""

    def _called(self, path: tuple[str, ...], graph_name: str, trigger_call_id: str) -> None:
        self.path = path
        self.graph_name = graph_name
        self.trigger_call_id = trigger_call_id


class SubgraphRunStream(_Called, GraphRunStream):
    """A run inside a run, from `run.subgraphs`: read what it tells while it goes on, in the body
    of the loop. `abort()` stops listening; the graph goes on.

    When the graph fails, `output` raises a RuntimeError caused by its exception.
    """

    def __init__(self, router: EventRouter, result: Result, graph_name: str, trigger_call_id: str) -> None:
        super().__init__(None, router, result=result)
        self._called(router.scope, graph_name, trigger_call_id)


class AsyncSubgraphRunStream(_Called, AsyncGraphRunStream):
    """`SubgraphRunStream` for async callers."""

    def __init__(self, router: EventRouter, result: Result, graph_name: str, trigger_call_id: str) -> None:
        super().__init__(None, router, result=result)
        self._called(router.scope, graph_name, trigger_call_id)
