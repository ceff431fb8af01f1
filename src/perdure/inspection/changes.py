"""What an update makes of a checkpoint: the next one, and what it leaves on the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.checkpoint.port import Loaded, NewCheckpoint, Record
from perdure.engine.attempt.body import node_writes
from perdure.engine.carry import frame_of
from perdure.engine.effects import Steps
from perdure.engine.handlers import without_open_handlers
from perdure.engine.live import Options, Run
from perdure.engine.opening import take_input
from perdure.engine.program import Write
from perdure.engine.rules import apply_writes, read_channels
from perdure.engine.saving import next_checkpoint
from perdure.engine.tasks import (
    NO_WRITES,
    PULL,
    PUSH,
    START,
    TASKS,
    Task,
    Value,
    path_text,
    task_id,
)
from perdure.errors import InvalidUpdateError, ParentCommand
from perdure.inspection.plan import is_finished, plan_open_step
from perdure.slotted import field, replace, slotted
from perdure.types import StateUpdate

OPTIONS = Options()
"""Of the stand-in run that an update is made with."""


@slotted
class Base:
    """What an update starts from."""

    loaded: Loaded
    live: bool
    """The thread as it stands, not a checkpoint of its history."""


@slotted
class Change:
    """What is to be stored."""

    checkpoint: NewCheckpoint
    records: list[Record] = field(default_factory=list)


# special updates --------------------------------------------------------------------------------


def as_input(r: Run, base: Base, values: Any) -> Change:
    """A new input: what was open is given up."""
    writes = r.program.write_input(values) if values is not None else ()
    if not writes:
        raise InvalidUpdateError(f"Received no input writes for {START}: give the input as values")
    return Change(_placed(take_input(r, writes), base))


def as_end(r: Run, base: Base, values: Any) -> Change:
    """Ends the open step: what tasks have finished counts, the others are given up."""
    if values is not None:
        raise InvalidUpdateError(
            "Node __end__ does not exist: as_node='__end__' ends what is open and writes nothing, "
            "so values must be None"
        )
    tasks, changed = _planned(r, base)
    number = r.hold.number()
    changed |= apply_writes(r.program, r.state, tasks, r.next_version(number))
    return Change(_made(r, base, number, "update", changed))


def as_copy(r: Run, base: Base, values: Any) -> Change:
    """The same checkpoint once more, with the same parent, and nothing recorded beside it."""
    if base.loaded.tuple is None:
        raise InvalidUpdateError("Cannot copy a non-existent checkpoint: the thread has none yet")
    if values is not None and not isinstance(values, (list, tuple)):
        raise InvalidUpdateError(
            "as_node='__copy__' takes None, or a list of (values, as_node) to apply to the copy, "
            f"not {values!r}"
        )
    before = r.parent_id
    made = _made(r, base, r.hold.number(), "fork", r.state.updated or set())
    # Its values are not those of the parent that it is given.
    everything = frozenset(made.checkpoint["channel_values"])
    return Change(replace(made, parent_id=before, changed=everything))


# updates in the name of nodes -------------------------------------------------------------------


def as_nodes(r: Run, base: Base, updates: Sequence[StateUpdate]) -> Steps[Change]:
    """Writes as if nodes had run, all in one superstep."""
    tasks, changed = _planned(r, base)
    if not base.live:
        for task in tasks:
            task.outcome = None  # What came of a step in the past is not taken over.
        tasks = [task for task in tasks if task.failure is None]
    names = _named(r, tasks, updates)
    finished = [task for task in tasks if is_finished(task)]
    waiting = [task for task in tasks if not is_finished(task)]
    named_here = any(task.name in names for task in tasks)
    filled = yield from _filled(r, waiting, names, updates)
    stay = [task for task in waiting if task.name not in names] if named_here else []
    ended = [task for task in waiting if task.name in names and task not in filled]
    parent, number = r.checkpoint_id, r.hold.number()
    changed |= _apply(r, [*finished, *ended, *filled], stay, r.next_version(number))
    records = [
        Record(r.ns, parent, task.id, list(task.writes) or [(NO_WRITES, None)], path_text(task.path))
        for task in filled
    ]
    return Change(_made(r, base, number, "update", changed), records if parent else [])


def _named(r: Run, tasks: Sequence[Task], updates: Sequence[StateUpdate]) -> list[str]:
    """The node of each update."""
    names = []
    for update in updates:
        name = update.as_node
        if name is None and len(updates) > 1:
            raise InvalidUpdateError("as_node is required when applying multiple updates in one superstep")
        if name is None:
            name = _last_writer(r, tasks)
        if name not in r.program.nodes:
            known = ", ".join(r.program.nodes)
            raise InvalidUpdateError(f"Node {name} does not exist; the nodes of this workflow are: {known}")
        names.append(name)
    return names


def _last_writer(r: Run, tasks: Sequence[Task]) -> str:
    """The node that wrote last; the input's, when none has run yet."""
    nodes = r.program.nodes
    if len(nodes) == 1:
        return next(iter(nodes))
    last = sorted({task.name for task in tasks if type(task.outcome) is Value})
    if not last:
        seen = {n: max(versions.values()) for n, versions in r.state.seen.items() if n in nodes and versions}
        newest = max(seen.values(), default=None)
        last = [name for name, version in seen.items() if version == newest]
    if not last and START in nodes:
        return START
    if len(last) == 1:
        return last[0]
    wrote = f"{', '.join(last)} wrote in the same step" if last else "no node has run yet"
    raise InvalidUpdateError(f"Ambiguous update, specify as_node: {wrote}")


def _filled(
    r: Run, waiting: Sequence[Task], names: Sequence[str], updates: Sequence[StateUpdate]
) -> Steps[list[Task]]:
    """The tasks that the updates stand for, with their writes: tasks that are due, in their order,
    as far as there are any of that name."""
    free = list(waiting)
    filled: list[Task] = []
    for name, update in zip(names, updates, strict=True):
        task = next((t for t in free if t.name == name and update.task_id in (None, t.id)), None)
        if task is not None:
            free.remove(task)
        else:
            own = task_id(r.checkpoint_id, r.ns, r.step, name, "__update__", str(len(filled)))
            node = r.program.nodes[name]
            triggers = node.triggers if r.program.entrypoint else ()
            task = Task(update.task_id or own, name, (PULL, name), triggers, node, None)
        task.outcome = Value((yield from _writes(r, task, update.values)))
        filled.append(task)
    return filled


def _writes(r: Run, task: Task, values: Any) -> Steps[list[Write]]:
    try:
        return (yield from node_writes(frame_of(r, task), task.node, values))
    except ParentCommand as signal:
        command = signal.command
    raise InvalidUpdateError(f"an update acts on one graph, {command!r} addresses another; leave `graph` out")


def _apply(r: Run, tasks: Sequence[Task], stay: Sequence[Task], version: Any) -> set[str]:
    """Moves the state on by the tasks that have ended; the step itself ends when none stays."""
    state = r.state
    if r.program.entrypoint:
        # Whose the saved value is follows from who took an input last.
        state.versions[START] = version
    packets = read_channels(state.channels, TASKS) or ()
    changed = apply_writes(r.program, state, tasks, version, advance=not stay)
    if not stay:
        return changed
    kept = [packets[task.path[1]] for task in stay if task.path[0] == PUSH]
    sent = list(read_channels(state.channels, TASKS) or ()) if TASKS in changed else []
    if [*kept, *sent] != list(packets):
        state.channels[TASKS] = state.channels[TASKS].from_checkpoint([*kept, *sent])
        state.versions[TASKS] = version
        changed.add(TASKS)
    return changed


# what they share --------------------------------------------------------------------------------


def _planned(r: Run, base: Base) -> tuple[list[Task], set[str]]:
    """The tasks of the open step, and the channels that a Command beside the checkpoint changed."""
    found = base.loaded.tuple
    if found is None:
        r.step = 0
        return [], set()
    tasks, changed = plan_open_step(r.program, r.state, found, r.ns, lambda: r.next_version(r.hold.number()))
    return without_open_handlers(tasks), changed


def _made(r: Run, base: Base, number: int, source: str, changed: set[str]) -> NewCheckpoint:
    """The run's state as a new checkpoint, from which all that is due is found again."""
    channels = r.state.channels
    due = {key for key in r.program.trigger_to_nodes if key in channels and channels[key].is_available()}
    return _placed(next_checkpoint(r, number, source, changed | due), base)


def _placed(made: NewCheckpoint | None, base: Base) -> NewCheckpoint:
    """The checkpoint below the same workflows as the one that it follows."""
    assert made is not None
    found = base.loaded.tuple
    parents = ((found.metadata or {}).get("parents") or {}) if found is not None else {}
    return replace(made, metadata={**made.metadata, "parents": dict(parents)})
