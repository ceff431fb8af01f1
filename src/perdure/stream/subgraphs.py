"""`run.subgraphs`: each graph that the run calls, as a run object of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from perdure.stream.channel import StreamChannel
from perdure.stream.lifecycle import End, Nested, NestedRunsTransformer, end_by
from perdure.stream.protocol import ProtocolEvent
from perdure.stream.result import Result
from perdure.stream.router import EventRouter
from perdure.stream.run_stream import AsyncSubgraphRunStream, SubgraphRunStream
from perdure.stream.transformer import Scope


@dataclass(slots=True)
class Act:
    """Something to be done with a child's router: in async runs it is awaited."""

    router: EventRouter
    name: str
    args: tuple[Any, ...] = ()

    def do(self) -> None:
        """Does it now."""
        getattr(self.router, self.name)(*self.args)

    async def ado(self) -> None:
        """Does it in an async run."""
        await getattr(self.router, "a" + self.name)(*self.args)


class Child:
    """A graph inside the run: the handle that users hold, and what feeds it."""

    def __init__(
        self, handle: SubgraphRunStream | AsyncSubgraphRunStream, router: EventRouter, result: Result
    ) -> None:
        self.handle = handle
        self.router = router
        self.result = result


class SubgraphTransformer(NestedRunsTransformer):
    """Projects the graphs that the run's own tasks call; theirs are on their handles.

    A handle is pushed when its graph starts its first task, with what the graph told before.
    """

    supports_sync: ClassVar[bool] = True
    waits: ClassVar[bool] = False

    def __init__(self, scope: Scope = ()) -> None:
        super().__init__(scope)
        self.channel: StreamChannel[Any] = StreamChannel()
        self._children: dict[Scope, Child] = {}
        self._early: dict[Scope, list[ProtocolEvent]] = {}
        """Events of graphs that have not started a task."""
        self._router: EventRouter | None = None
        self._depth = len(scope)

    def init(self) -> dict[str, Any]:
        return {"subgraphs": self.channel}

    def on_register(self, router: EventRouter) -> None:
        self._router = router

    def should_track(self, ns: Scope) -> bool:
        said = self.told.get(ns)
        if said is not None:
            return tuple(said["parent"]) == self.scope
        return len(ns) == self._depth + 1 and ns[: self._depth] == self.scope

    # events -----------------------------------------------------------------------------

    def process(self, event: ProtocolEvent) -> bool:
        is_task = event["method"] == "tasks"
        if is_task or len(event["params"]["namespace"]) > self._depth:
            for act in self._acts(event):
                act.do()
        return not is_task

    async def aprocess(self, event: ProtocolEvent) -> bool:
        is_task = event["method"] == "tasks"
        if is_task or len(event["params"]["namespace"]) > self._depth:
            for act in self._acts(event):
                await act.ado()
        return not is_task

    def _acts(self, event: ProtocolEvent) -> Iterator[Act]:
        namespace = event["params"]["namespace"]
        if event["method"] == "tasks":
            for nested, end in list(self.follow(event)):
                if end is None:
                    yield from self._open_child(nested)
                else:
                    yield from self._close_child(nested, end)
        if len(namespace) > self._depth:
            yield from self._forward(tuple(namespace), event)

    def _forward(self, ns: Scope, event: ProtocolEvent) -> Iterator[Act]:
        for end in range(len(ns), self._depth, -1):
            path = ns[:end]
            child = self._children.get(path)
            if child is not None:
                yield from self._deliver(child, event)
                return
            if path in self._early:
                self._early[path].append(event)
                return
        if ns not in self._seen and self.should_track(ns):
            self._early[ns] = [event]

    def _deliver(self, child: Child, event: ProtocolEvent) -> Iterator[Act]:
        if not child.router.ended:
            child.result.observe(event)
            yield Act(child.router, "push", (event,))

    def _open_child(self, nested: Nested) -> Iterator[Act]:
        assert self._router is not None
        router = self._router.child(nested.ns)
        result = Result(nested.ns)
        kind = AsyncSubgraphRunStream if router.is_async else SubgraphRunStream
        handle = kind(router, result, nested.name, nested.task_id)
        child = self._children[nested.ns] = Child(handle, router, result)
        self._router.hold((*router.channels, router.events))
        for event in self._early.pop(nested.ns, ()):
            yield from self._deliver(child, event)
        self.channel.push(handle)

    def _close_child(self, nested: Nested, end: End) -> Iterator[Act]:
        child = self._children.pop(nested.ns, None)
        if child is None:
            return
        child.handle.status = end.status
        child.handle.error = end.error
        if end.status == "failed":
            yield Act(child.router, "fail", (_failure(end),))
        else:
            yield Act(child.router, "close")

    # notes ------------------------------------------------------------------------------

    def note_acts(self, mode: str, ns: Scope, data: Any) -> Iterator[Act]:
        """What is to be done with the children by a note of the engine."""
        for nested, end in list(self.follow_note(mode, ns, data)):
            yield from self._close_child(nested, end)
        if mode == "runs" and data["event"] == "ended":
            self._early.pop(ns, None)
        for path, child in list(self._children.items()):
            if ns[: len(path)] == path:
                child.result.note(mode, ns)
                yield Act(child.router, "note", (mode, ns, data))

    def note(self, mode: str, ns: Scope, data: Any) -> None:
        for act in self.note_acts(mode, ns, data):
            act.do()

    async def anote(self, mode: str, ns: Scope, data: Any) -> None:
        for act in self.note_acts(mode, ns, data):
            await act.ado()

    # the end ----------------------------------------------------------------------------

    def finalize(self) -> None:
        for act in self._end_acts(End("completed")):
            act.do()

    async def afinalize(self) -> None:
        for act in self._end_acts(End("completed")):
            await act.ado()

    def fail(self, err: BaseException) -> None:
        for act in self._end_acts(end_by(err)):
            act.do()

    async def afail(self, err: BaseException) -> None:
        for act in self._end_acts(end_by(err)):
            await act.ado()

    def _end_acts(self, end: End) -> Iterator[Act]:
        self._early.clear()
        for nested in self.take_open():
            yield from self._close_child(nested, end)


def _failure(end: End) -> RuntimeError:
    error = RuntimeError(end.error)
    error.__cause__ = end.exception
    return error
