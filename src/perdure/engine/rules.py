"""The rules of a superstep, pure: what runs next, and how writes become the next state.

A node is due when one of its trigger channels is available and newer than the version that
the node has last seen. Writes are applied in the order of task paths, so the result does not
depend on which task was quicker.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from perdure.channels.base import BaseChannel
from perdure.engine.program import Channels, Node, Program, Write
from perdure.engine.tasks import INPUT, PULL, PUSH, TASKS, Path, Task, path_key, task_id
from perdure.errors import EmptyChannelError, InvalidUpdateError
from perdure.managed.base import Steps
from perdure.slotted import field, slotted
from perdure.typing import MISSING

logger = logging.getLogger("perdure")

Version = Any
"""An int in our own savers; a foreign saver's may be text."""

_BOOKKEEPING = frozenset(
    ("__interrupt__", "__resume__", "__error__", "__no_writes__", "__scheduled__", "__error_source_node__")
)


@slotted
class State:
    """The channels of a run and which versions have been seen."""

    channels: dict[str, BaseChannel[Any, Any, Any]]
    versions: dict[str, Version] = field(default_factory=dict)
    seen: dict[str, dict[str, Version]] = field(default_factory=dict)
    updated: set[str] | None = None
    """Channels that the last superstep changed; None when that is not known."""
    armed: set[str] = field(default_factory=set)
    """Available channels that an empty update would change."""


def open_state(program: Program, checkpoint: Mapping[str, Any] | None) -> State:
    """The channels as a checkpoint left them; fresh ones without a checkpoint."""
    if checkpoint is None:
        return State({key: proto.from_checkpoint(MISSING) for key, proto in program.channels.items()})
    values = checkpoint["channel_values"]
    channels = {
        key: proto.from_checkpoint(values.get(key, MISSING)) for key, proto in program.channels.items()
    }
    state = State(channels)
    for key, channel in channels.items():
        if channel.reacts_to_silence:
            _arm(state, key, channel)
    state.versions = dict(checkpoint["channel_versions"])
    state.seen = {name: dict(seen) for name, seen in checkpoint["versions_seen"].items()}
    updated = checkpoint.get("updated_channels")
    state.updated = set(updated) if updated is not None else None
    return state


def apply_writes(
    program: Program,
    state: State,
    tasks: Sequence[Task],
    version: Version,
    extra: Sequence[Write] = (),
    *,
    advance: bool = True,
) -> set[str]:
    """Moves the state on by the writes of finished tasks; returns the channels that changed.

    Args:
        version: The version that changed channels get; greater than all so far.
        extra: Writes of no task (a caller's input, a Command's update), applied first.
        advance: A superstep has passed: what lives for one step goes. False when something is
            only put beside what is open.
    """
    changed: set[str] = set()
    channels, versions = state.channels, state.versions
    pending: dict[str, list[Any]] = {}
    if extra:
        _gather(pending, channels, extra, INPUT)
    for task in sorted(tasks, key=path_key) if len(tasks) > 1 else tasks:
        seen = state.seen.get(task.name)
        if seen is None:
            seen = state.seen[task.name] = {}
        for trigger in task.triggers:
            if trigger in versions:
                seen[trigger] = versions[trigger]
        _gather(pending, channels, task.writes, task.name)
    if program.consumers:
        for trigger in program.consumers.intersection([key for task in tasks for key in task.triggers]):
            if channels[trigger].consume():
                versions[trigger] = version
                changed.add(trigger)
    for key, values in pending.items():
        channel = channels[key]
        if channel.update(values):
            versions[key] = version
            changed.add(key)
            if channel.reacts_to_silence:
                _arm(state, key, channel)
    if not advance:
        state.updated = None if state.updated is None else state.updated | changed
        return changed
    if state.armed:
        for key in state.armed.difference(pending):
            channel = channels[key]
            if channel.update(()):
                versions[key] = version
                changed.add(key)
                _arm(state, key, channel)
    if program.finishers and not any(
        key in program.trigger_to_nodes and channels[key].is_available() for key in changed
    ):
        for key in program.finishers:
            if channels[key].finish():
                versions[key] = version
                changed.add(key)
    state.updated = changed
    return changed


def _arm(state: State, key: str, channel: BaseChannel[Any, Any, Any]) -> None:
    if channel.is_available():
        state.armed.add(key)
    else:
        state.armed.discard(key)


def _gather(pending: dict[str, list[Any]], channels: Channels, writes: Iterable[Write], source: str) -> None:
    for key, value in writes:
        if key in channels:
            if key in pending:
                pending[key].append(value)
            else:
                pending[key] = [value]
        elif key not in _BOOKKEEPING and key != "__return__":
            logger.warning("task %r wrote to %r, which is no channel of this workflow; ignored", source, key)


def next_tasks(
    program: Program, state: State, checkpoint_id: str, ns: str, steps: Steps, *, read: bool = True
) -> list[Task]:
    """The tasks of the next superstep: packets in the order they were sent, then nodes.

    Args:
        read: False leaves out the inputs, for who only wants to look.
    """
    tasks: list[Task] = []
    if state.updated is None or TASKS in state.updated:
        tasks = _packets(program, state, checkpoint_id, ns, steps.step)
    for name in _candidates(program, state):
        node = program.nodes[name]
        if not _due(node, state):
            continue
        value = None
        if read:
            try:
                value = node.read(state.channels, steps)
            except EmptyChannelError:
                continue
            if node.coerce is not None:
                value = node.coerce(value)
        tid = task_id(checkpoint_id, ns, steps.step, name, PULL, *node.triggers)
        tasks.append(Task(tid, name, (PULL, name), node.triggers, node, value))
    return tasks


def _packets(program: Program, state: State, checkpoint_id: str, ns: str, step: int) -> list[Task]:
    channel = state.channels.get(TASKS)
    if channel is None or not channel.is_available():
        return []
    tasks = []
    for index, packet in enumerate(channel.get()):
        node = program.nodes.get(packet.node)
        if node is None:
            raise InvalidUpdateError(
                f"a Send goes to {packet.node!r}, which is no node of this workflow; "
                f"known are {', '.join(sorted(program.nodes))}"
            )
        path: Path = (PUSH, index, False)
        tid = task_id(checkpoint_id, ns, step, packet.node, PUSH, str(index))
        tasks.append(Task(tid, packet.node, path, (PUSH,), node, packet.arg, timeout=packet.timeout))
    return tasks


def _candidates(program: Program, state: State) -> Sequence[str]:
    if state.updated is None:
        return list(program.nodes)
    triggers = program.trigger_to_nodes
    found: Sequence[str] = ()
    for key in state.updated:
        if key in triggers:
            found = triggers[key] if not found else [*found, *triggers[key]]
    return found if len(found) <= 1 else sorted(set(found))


def _due(node: Node, state: State) -> bool:
    seen = state.seen.get(node.name)
    for trigger in node.triggers:
        version = state.versions.get(trigger)
        if version is None or not state.channels[trigger].is_available():
            continue
        last = seen.get(trigger) if seen is not None else None
        if last is None or version > last:
            return True
    return False


def breakpoint_hit(state: State, names: Sequence[str] | str, tasks: Sequence[Task]) -> bool:
    """True when a static breakpoint on one of `tasks` stops the run: it is listed, and some
    channel has changed since the last stop."""
    if not names:
        return False
    seen = state.seen.get("__interrupt__", {})
    if not any(key not in seen or version > seen[key] for key, version in state.versions.items()):
        return False
    if names == "*":
        return any(not task.node.hidden for task in tasks)
    return any(task.name in names for task in tasks)


def pass_breakpoints(state: State) -> None:
    """Marks all that has happened as seen by the last breakpoint, so that the run goes on."""
    state.seen["__interrupt__"] = dict(state.versions)


def read_channels(channels: Channels, keys: str | Sequence[str]) -> Any:
    """A bare value for one key (None when empty), a dict of what is there for several."""
    if isinstance(keys, str):
        channel = channels[keys]
        return channel.get() if channel.is_available() else None
    found = {}
    for key in keys:
        channel = channels[key]
        if channel.is_available():
            found[key] = channel.get()
    return found


def channel_values(channels: Channels) -> dict[str, Any]:
    """What of each channel goes into a checkpoint; empty and untracked ones are left out."""
    values = {}
    for key, channel in channels.items():
        value = channel.checkpoint()
        if value is not MISSING:
            values[key] = value
    return values
