"""What a run tells its listeners. Nothing is computed that nobody reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from perdure.engine.limits import watched, watches_of
from perdure.engine.rules import read_channels
from perdure.engine.tasks import PUSH, RETURN, Error, Handled, Outcome, Paused, Task, Value

if TYPE_CHECKING:
    from perdure.checkpoint.port import NewCheckpoint
    from perdure.engine.calls import Call
    from perdure.engine.frame import Frame
    from perdure.engine.live import Run
    from perdure.engine.program import Write
    from perdure.messages import MessageWriter

_NOT_SHOWN = frozenset(
    (
        "thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "langgraph_step", "langgraph_node",
        "langgraph_triggers", "langgraph_path", "langgraph_checkpoint_ns",
    )
)  # fmt: skip

_UNNAMED = "LangGraph"
"""The documented name of graphs that were given none."""


class Report:
    """The voice of one run."""

    __slots__ = ("run",)

    def __init__(self, run: Run) -> None:
        self.run = run

    def _emit(self, mode: str, payload: Any) -> None:
        self.run.sink.emit(self.run.stream_ns, mode, payload)

    # nested runs ------------------------------------------------------------------------

    def nested_began(self, nested: Run) -> None:
        """Code of this run has called a workflow. That has a name of its own where the code is an
        entrypoint's; in a graph it is known by the node."""
        run = self.run
        if run.sink.runs:
            name = nested.program.name if run.program.entrypoint else _UNNAMED
            told = {"event": "started", "parent": run.stream_ns, "name": None if name == _UNNAMED else name}
            run.sink.emit(nested.stream_ns, "runs", told)

    def nested_ended(self, nested: Run, error: BaseException | None) -> None:
        """A workflow that code of this run called has ended, by an error or a signal if there is one."""
        if self.run.sink.runs:
            self.run.sink.emit(nested.stream_ns, "runs", {"event": "ended", "error": error})

    # values -----------------------------------------------------------------------------

    def values_at_start(self, resumed: bool) -> None:
        """The state after the input was applied, or as it was loaded."""
        run = self.run
        if run.sink.values and (resumed or _touches(run.state.updated or (), run.output_keys)):
            self._emit("values", read_channels(run.state.channels, run.output_keys))

    def values_after(self, changed: set[str]) -> None:
        """The state after a superstep, when it changed something that is shown."""
        run = self.run
        if run.sink.values and _touches(changed, run.output_keys):
            self._emit("values", read_channels(run.state.channels, run.output_keys))

    def paused(self, changed: set[str]) -> None:
        """The state as it would be with what finished beside the paused tasks."""
        run = self.run
        if run.sink.values and _touches(changed, run.output_keys):
            self._emit("values", read_channels(run.shown, run.output_keys))

    def breakpoint(self) -> None:
        """The run stops at a static breakpoint."""
        if self.run.sink.updates:
            self._emit("updates", {"__interrupt__": ()})
        if self.run.sink.breakpoints:
            self._emit("breakpoints", ())

    # tasks ------------------------------------------------------------------------------

    def tasks_started(self, tasks: list[Task]) -> None:
        """A superstep begins with these tasks."""
        sink = self.run.sink
        if not sink.modes:
            return
        if sink.tasks:
            for task in tasks:
                if not task.node.hidden:
                    if task.restored and type(task.outcome) is Value:
                        self._recorded(task.id)
                    self._task(self._start_of(task.id, task.name, task.input, task.triggers, task))
        if sink.updates:
            for task in tasks:
                if task.restored and type(task.outcome) is Value:
                    self._update(task, restored=True)

    def task_ended(self, task: Task, step: int | None = None) -> None:
        """A node's task of this superstep has an outcome, or of the superstep `step`."""
        outcome, sink = task.outcome, self.run.sink
        if task.node.hidden or not sink.modes:
            return
        if type(outcome) is Value:
            if sink.updates:
                self._update(task, restored=task.cached)
        elif isinstance(outcome, Paused):
            self._interrupted(outcome)
        if sink.tasks:
            shown = {} if type(outcome) is not Value else self._shown(task)
            self._task_result(task.id, task.name, shown, outcome, step)

    def _update(self, task: Task, *, restored: bool) -> None:
        run = self.run
        if task.node.hidden:
            return
        chunk = {task.name: shown_writes(task.writes, run.output_keys)}
        if restored:
            chunk["__metadata__"] = {"cached": True}
        self._emit("updates", chunk)

    def _interrupted(self, outcome: Paused) -> None:
        run = self.run
        if run.sink.updates:
            self._emit("updates", {"__interrupt__": outcome.interrupts})
        if run.sink.values:
            values = read_channels(run.state.channels, run.output_keys)
            shown = dict(values) if isinstance(values, dict) else {}
            self._emit("values", {**shown, "__interrupt__": outcome.interrupts})

    def _shown(self, task: Task) -> dict[str, Any]:
        return result_of(task.writes, self.run.program.stream)

    # calls ------------------------------------------------------------------------------

    def call_started(self, frame: Frame) -> None:
        """A task is called, and runs."""
        if self.run.sink.tasks:
            given = (frame.args, frame.kwargs)
            self._task(self._start_of(frame.id, frame.name, given, (PUSH,), None))

    def call_restored(self, frame: Frame, call: Call, args: Any, kwargs: Any) -> None:
        """A task is called, and its recorded outcome is given."""
        if self.run.sink.tasks:
            self._recorded(call.id)
            self._task(self._start_of(call.id, call.name, (args, kwargs), (PUSH,), None))

    def _recorded(self, id: str) -> None:
        if self.run.sink.recorded:
            self._emit("recorded", id)

    def call_ended(self, frame: Frame, outcome: Outcome) -> None:
        """A call has an outcome. A paused one is reported by the node that made it."""
        sink = self.run.sink
        if type(outcome) is Value:
            if sink.updates:
                chunk = {frame.name: outcome.value}
                if frame.cached:
                    chunk["__metadata__"] = {"cached": True}
                self._emit("updates", chunk)
            if sink.tasks:
                self._task_result(frame.id, frame.name, {RETURN: outcome.value}, outcome)
        elif type(outcome) is Error and sink.tasks:
            self._task_result(frame.id, frame.name, {}, outcome)

    def message(self, frame: Frame, message: Any) -> None:
        """User code shows a message."""
        if self.run.sink.messages or self.run.sink.blocks:
            self.whole_message(message, dict(frame.config.get("metadata") or {}))
            if self.run.guest is not None:
                self.run.guest.saw(getattr(message, "id", None))

    def whole_message(self, message: Any, metadata: dict[str, Any]) -> None:
        """A complete message is shown; `blocks` has it as it is, too."""
        if self.run.sink.messages:
            self._emit("messages", (message, metadata))
        if self.run.sink.blocks:
            self._emit("blocks", (message, metadata))

    def message_writer(self, frame: Frame, id: str, about: Mapping[str, Any]) -> MessageWriter:
        """A writer for a message that user code shows piece by piece."""
        from perdure.messages import MessageWriter

        sink, ns = self.run.sink, self.run.stream_ns
        chunks: Callable[[Any], None] | None = None
        events: Callable[[Any], None] | None = None
        if sink.messages or sink.blocks:
            metadata = dict(frame.config.get("metadata") or {})
            named = {**metadata, "run_id": id}
            if self.run.guest is not None:
                self.run.guest.saw(id)
            if sink.messages:
                chunks = lambda chunk: sink.emit(ns, "messages", (chunk, metadata))  # noqa: E731
            if sink.blocks:
                events = lambda event: sink.emit(ns, "blocks", (event, named))  # noqa: E731
        if self.run.limits:
            watches = watches_of(frame)
            chunks = watched(chunks or _unheard, watches)
            events = watched(events, watches) if events is not None else None
        return MessageWriter(id, chunks=chunks, events=events, about=about)

    # checkpoints ------------------------------------------------------------------------

    def checkpoint_at_start(self) -> None:
        """The checkpoint that the run begins from."""
        run = self.run
        if run.sink.checkpoints and run.checkpoint_id:
            self._checkpoint(run.parent_id, run.metadata)

    def checkpoint(self, stored: NewCheckpoint) -> None:
        """A superstep's checkpoint, with the tasks that are due next."""
        if self.run.sink.checkpoints:
            self._checkpoint(stored.parent_id, stored.metadata)

    def _checkpoint(self, parent_id: str | None, metadata: Any) -> None:
        run = self.run
        payload = {
            "config": run.own_config(run.checkpoint_id),
            "parent_config": run.own_config(parent_id) if parent_id else None,
            "values": read_channels(run.state.channels, run.program.stream),
            "metadata": dict(metadata),
            "next": [task.name for task in run.tasks],
            "tasks": [self._task_of_checkpoint(task) for task in run.tasks],
        }
        if "checkpoints" in run.sink.modes:
            self._emit("checkpoints", payload)
        if run.sink.debug:
            self._debug(int(metadata.get("step", run.step)), "checkpoint", payload)

    def _task_of_checkpoint(self, task: Task) -> dict[str, Any]:
        run = self.run
        state = None
        if task.node.subgraphs:
            ns = f"{run.ns}|{task.name}:{task.id}" if run.ns else f"{task.name}:{task.id}"
            state = {"configurable": {"thread_id": run.thread_id, "checkpoint_ns": ns}}
        shown: dict[str, Any] = {"id": task.id, "name": task.name}
        if type(task.outcome) is Value:
            shown["result"] = self._shown(task)
        shown["interrupts"] = tuple(asdict(question) for question in task.asked)
        shown["state"] = state
        return shown

    # shapes -----------------------------------------------------------------------------

    def _start_of(self, id: str, name: str, given: Any, triggers: Any, task: Task | None) -> dict[str, Any]:
        payload = {"id": id, "name": name, "input": given, "triggers": triggers}
        config = self.run.config
        metadata = {k: v for k, v in (config.get("metadata") or {}).items() if k not in _NOT_SHOWN}
        if task is not None:
            metadata.update(task.node.metadata)
        tags = [tag for tag in config.get("tags") or () if not str(tag).startswith("seq:step")]
        if tags:
            metadata["tags"] = tags
        if metadata:
            payload["metadata"] = metadata
        return payload

    def _task(self, payload: dict[str, Any]) -> None:
        if "tasks" in self.run.sink.modes:
            self._emit("tasks", payload)
        if self.run.sink.debug:
            self._debug(self.run.step, "task", payload)

    def _task_result(
        self, id: str, name: str, result: dict[str, Any], outcome: Outcome | None, step: int | None = None
    ) -> None:
        payload = {
            "id": id,
            "name": name,
            "error": outcome.error if isinstance(outcome, (Error, Handled)) else None,
            "result": result,
            "interrupts": [asdict(q) for q in outcome.interrupts] if isinstance(outcome, Paused) else [],
        }
        if "tasks" in self.run.sink.modes:
            self._emit("tasks", payload)
        if self.run.sink.debug:
            self._debug(self.run.step if step is None else step, "task_result", payload)

    def _debug(self, step: int, kind: str, payload: Any) -> None:
        stamp = datetime.now(UTC).isoformat()
        self._emit("debug", {"step": step, "timestamp": stamp, "type": kind, "payload": payload})


def _unheard(chunk: Any) -> None:
    """Takes the pieces of a message that nobody reads."""


def shown_writes(writes: Any, keys: Any) -> Any:
    """What of a task's writes `updates` shows: a dict of the shown keys, a list of one-key dicts
    when a key was written more than once, a bare value for a bare key (a list of them when it
    was written more than once), None for nothing."""
    if isinstance(keys, str):
        found = [value for key, value in writes if key == keys]
        return found if len(found) > 1 else found[0] if found else None
    wanted = [write for write in writes if write[0] in keys]
    shown = dict(wanted)
    if len(shown) < len(wanted):
        return [{key: value} for key, value in wanted]
    return shown or None


def result_of(writes: Iterable[Write], keys: str | Sequence[str]) -> dict[str, Any]:
    """What of a task's writes its result shows: a dict of the shown keys, with `{"$writes": [...]}`
    for one that was written more than once."""
    shown = (keys,) if isinstance(keys, str) else keys
    found: dict[str, Any] = {}
    for key, value in writes:
        if key in shown or key == RETURN:
            _put(found, key, value)
    return found


def _put(found: dict[str, Any], key: str, value: Any) -> None:
    if key not in found:
        found[key] = value
        return
    earlier = found[key]
    if isinstance(earlier, dict) and set(earlier) == {"$writes"}:
        earlier["$writes"].append(value)
    else:
        found[key] = {"$writes": [earlier, value]}


def _touches(changed: Any, keys: Any) -> bool:
    if isinstance(keys, str):
        return keys in changed
    for key in keys:  # noqa: SIM110  # quicker than a generator; this runs once a superstep
        if key in changed:
            return True
    return False
