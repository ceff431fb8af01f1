"""When the graphs inside a run start and end, as far as their tasks tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from perdure.errors import DrainSignal, GraphDrained, GraphInterrupt, ParentCommand
from perdure.stream.channel import StreamChannel
from perdure.stream.protocol import ProtocolEvent
from perdure.stream.transformer import Scope, StreamTransformer

SubgraphStatus: TypeAlias = Literal["started", "completed", "failed", "interrupted", "drained"]


class LifecycleCause(TypedDict):
    """What made a graph start."""

    type: Literal["toolCall"]
    tool_call_id: str


class LifecyclePayload(TypedDict):
    """A graph inside the run started or ended."""

    event: SubgraphStatus
    namespace: list[str]
    graph_name: NotRequired[str]
    trigger_call_id: NotRequired[str]
    cause: NotRequired[LifecycleCause]
    """Only on `started`."""
    error: NotRequired[str]
    """Only on `failed`."""


@dataclass(slots=True)
class Nested:
    """A graph inside the run."""

    ns: Scope
    name: str
    task_id: str
    """The task that called it."""
    cause: LifecycleCause | None = None


@dataclass(slots=True)
class End:
    """How a graph ended."""

    status: SubgraphStatus
    error: str | None = None
    exception: BaseException | None = None


class NestedRunsTransformer(StreamTransformer):
    """Base of transformers that follow the graphs inside a run.

    A graph starts with the first task that starts in it. It ends when the engine says so, or
    with the task that called it. Subclasses say which are followed, and what is done.
    """

    native: ClassVar[bool] = True
    methods: ClassVar[tuple[str, ...] | None] = ("tasks",)
    required_stream_modes: ClassVar[tuple[str, ...]] = ("tasks",)

    def __init__(self, scope: Scope = ()) -> None:
        super().__init__(scope)
        self.told: dict[Scope, dict[str, Any]] = {}
        """What the engine said of runs that began: `parent` (namespace), `name`."""
        self._seen: set[Scope] = set()
        self._open: dict[Scope, Nested] = {}
        self._of_task: dict[str, list[Scope]] = {}
        self._causes: dict[str, LifecycleCause] = {}
        """Task id -> the tool call that it serves."""

    # for subclasses ---------------------------------------------------------------------

    def should_track(self, ns: Scope) -> bool:
        """Whether the graph at this namespace is followed."""
        raise NotImplementedError

    def started(self, nested: Nested) -> None:
        """A graph has started."""
        raise NotImplementedError

    def ended(self, nested: Nested, end: End) -> None:
        """A graph has ended."""
        raise NotImplementedError

    # what happens -----------------------------------------------------------------------

    def process(self, event: ProtocolEvent) -> bool:
        if event["method"] != "tasks":
            return True
        for nested, end in self.follow(event):
            if end is None:
                self.started(nested)
            else:
                self.ended(nested, end)
        return False

    def follow(self, event: ProtocolEvent) -> Iterator[tuple[Nested, End | None]]:
        """The graphs that start (without an end) or end by an event of a task."""
        data = event["params"]["data"]
        if "result" in data:
            self._causes.pop(data["id"], None)
            for ns in self._of_task.pop(data["id"], ()):
                nested = self._open.pop(ns, None)
                if nested is not None:
                    yield nested, end_of_task(data)
            return
        cause = cause_of(data.get("input"))
        if cause is not None:
            self._causes[data["id"]] = cause
        ns = tuple(event["params"]["namespace"])
        if ns in self._seen or not self.should_track(ns):
            return
        nested_run = self._identify(ns, data.get("metadata") or {})
        if nested_run is not None:
            yield nested_run, None

    def note(self, mode: str, ns: Scope, data: Any) -> None:
        for nested, end in self.follow_note(mode, ns, data):
            self.ended(nested, end)

    def follow_note(self, mode: str, ns: Scope, data: Any) -> Iterator[tuple[Nested, End]]:
        """The graph that ends by a note of the engine, if one does."""
        if mode != "runs":
            return
        if data["event"] == "started":
            self.told[ns] = data
            return
        self.told.pop(ns, None)
        self._seen.discard(ns)
        nested = self._open.pop(ns, None)
        if nested is not None:
            self._of_task[nested.task_id].remove(ns)
            yield nested, end_by(data["error"])

    def _identify(self, ns: Scope, metadata: dict[str, Any]) -> Nested | None:
        said = self.told.get(ns)
        segments = ns if said is None else _without_numbers(ns)
        name, _, task_id = segments[-1].partition(":")
        if not task_id:
            return None
        agent = metadata.get("lc_agent_name")
        nested = Nested(ns, agent or (said or {}).get("name") or name, task_id)
        if agent is not None:
            nested.cause = self._causes.get(task_id)
        self._seen.add(ns)
        self._open[ns] = nested
        self._of_task.setdefault(task_id, []).append(ns)
        return nested

    def finalize(self) -> None:
        self._end_all(End("completed"))

    def fail(self, err: BaseException) -> None:
        self._end_all(end_by(err))

    def _end_all(self, end: End) -> None:
        for nested in self.take_open():
            self.ended(nested, end)

    def take_open(self) -> list[Nested]:
        """The graphs that have not ended, the innermost first; they are not followed further."""
        nested = [self._open[ns] for ns in reversed(self._open)]
        self._open.clear()
        return nested


class LifecycleTransformer(NestedRunsTransformer):
    """`run.lifecycle`: a payload whenever a graph inside the run, at any depth, starts or ends."""

    def __init__(self, scope: Scope = ()) -> None:
        super().__init__(scope)
        self.channel: StreamChannel[LifecyclePayload] = StreamChannel("lifecycle")

    def init(self) -> dict[str, Any]:
        return {"lifecycle": self.channel}

    def should_track(self, ns: Scope) -> bool:
        depth = len(self.scope)
        return len(ns) > depth and ns[:depth] == self.scope

    def started(self, nested: Nested) -> None:
        payload = self._payload("started", nested)
        if nested.cause is not None:
            payload["cause"] = nested.cause
        self.channel.push(payload)

    def ended(self, nested: Nested, end: End) -> None:
        payload = self._payload(end.status, nested)
        if end.status == "failed" and end.error is not None:
            payload["error"] = end.error
        self.channel.push(payload)

    def _payload(self, status: SubgraphStatus, nested: Nested) -> LifecyclePayload:
        return {
            "event": status,
            "namespace": list(nested.ns),
            "graph_name": nested.name,
            "trigger_call_id": nested.task_id,
        }


def end_of_task(data: dict[str, Any]) -> End:
    """How a graph ended, by the result of the task that called it."""
    if data.get("interrupts"):
        return End("interrupted")
    error = data.get("error")
    if error is not None:
        return End("failed", str(error), error if isinstance(error, BaseException) else None)
    return End("completed")


def end_by(error: BaseException | None) -> End:
    """How a graph ended, by what it raised."""
    if error is None or isinstance(error, ParentCommand):
        return End("completed")
    if isinstance(error, GraphDrained | DrainSignal):
        return End("drained")
    if isinstance(error, GraphInterrupt):
        return End("interrupted")
    return End("failed", str(error), error)


def cause_of(given: Any) -> LifecycleCause | None:
    """The tool call that a task's input consists of, if it does."""
    call: Any = None
    if isinstance(given, dict):
        call = given.get("tool_call")
    elif isinstance(given, Sequence) and not isinstance(given, str) and given:
        call = given[0]
    if isinstance(call, dict) and isinstance(call.get("id"), str):
        return {"type": "toolCall", "tool_call_id": call["id"]}
    return None


def _without_numbers(ns: Scope) -> Scope:
    """A namespace without the numbers of repeated calls at its end."""
    end = len(ns)
    while end > 1 and ns[end - 1].isdigit():
        end -= 1
    return ns[:end]
