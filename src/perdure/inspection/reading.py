"""Reading a thread: as it stands, and its history."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.base import CheckpointTuple
from perdure.checkpoint.foreign import ForeignSaver
from perdure.checkpoint.port import Loaded
from perdure.engine.effects import Load, Steps
from perdure.engine.opening import recorded_answers
from perdure.engine.tasks import ERROR, INTERRUPT, RETURN, SCHEDULED, Task
from perdure.inspection.address import Address, locate, names_of, task_ns
from perdure.inspection.drive import adrive, drive
from perdure.inspection.snapshot import Opened, begun_in, missing, open_checkpoint, snapshot
from perdure.snapshots import StateSnapshot

if TYPE_CHECKING:
    from perdure.workflow import Workflow

_OF_CALLS = frozenset((RETURN, ERROR, INTERRUPT, SCHEDULED))
"""Channels under which calls leave something."""


def get_state(workflow: Workflow, config: Mapping[str, Any], *, subgraphs: bool) -> StateSnapshot:
    """See `Workflow.get_state`."""
    address = locate(workflow, config)
    return drive(read(address, subgraphs=subgraphs), address.saver)


async def aget_state(workflow: Workflow, config: Mapping[str, Any], *, subgraphs: bool) -> StateSnapshot:
    """See `Workflow.aget_state`."""
    address = locate(workflow, config)
    return await adrive(read(address, subgraphs=subgraphs), address.saver)


def get_state_history(
    workflow: Workflow,
    config: Mapping[str, Any],
    *,
    filter: Mapping[str, Any] | None,
    before: Mapping[str, Any] | None,
    limit: int | None,
) -> Iterator[StateSnapshot]:
    """See `Workflow.get_state_history`."""
    address = locate(workflow, config)
    rows = address.documented.list(*_listing(address), **_narrowing(filter, before, limit))
    if isinstance(address.saver, ForeignSaver):
        rows = list(rows)  # It may hold a lock as long as it is listing.
    for row in rows:
        yield drive(_read_row(address, row), address.saver)


async def aget_state_history(
    workflow: Workflow,
    config: Mapping[str, Any],
    *,
    filter: Mapping[str, Any] | None,
    before: Mapping[str, Any] | None,
    limit: int | None,
) -> AsyncIterator[StateSnapshot]:
    """See `Workflow.aget_state_history`."""
    address = locate(workflow, config)
    rows = address.documented.alist(*_listing(address), **_narrowing(filter, before, limit))
    if isinstance(address.saver, ForeignSaver):
        for row in [row async for row in rows]:
            yield await adrive(_read_row(address, row), address.saver)
        return
    async for row in rows:
        yield await adrive(_read_row(address, row), address.saver)


def _listing(address: Address) -> tuple[dict[str, Any]]:
    named = {"thread_id": address.thread_id, "checkpoint_ns": address.ns}
    if address.checkpoint_id is not None:
        named["checkpoint_id"] = address.checkpoint_id
    return ({"configurable": named},)


def _narrowing(
    filter: Mapping[str, Any] | None, before: Mapping[str, Any] | None, limit: int | None
) -> dict[str, Any]:
    return {"filter": dict(filter) if filter is not None else None, "before": before, "limit": limit}


# steps ------------------------------------------------------------------------------------------


def read(address: Address, *, subgraphs: bool) -> Steps[StateSnapshot]:
    """The addressed checkpoint, or the thread as it stands."""
    loaded = yield from Load(address.thread_id, address.ns, address.checkpoint_id)
    if loaded.tuple is None:
        return missing(address)
    live = address.checkpoint_id is None
    answered = yield from _answered(address, loaded.tuple, live=live)
    opened = open_checkpoint(address, loaded, answered, live=live)
    states = {}
    for task in opened.tasks:
        if task.node.subgraphs:
            states[task.id] = yield from _state_below(address, opened, task, subgraphs=subgraphs)
    return snapshot(address, opened, states)


def _read_row(address: Address, row: CheckpointTuple) -> Steps[StateSnapshot]:
    """A checkpoint as the saver lists it. What lies beside calls is not listed, and read again."""
    loaded = Loaded(row)
    if any(channel in _OF_CALLS for _, channel, _ in row.pending_writes or ()):
        loaded = yield from Load(address.thread_id, address.ns, row.checkpoint["id"])
        if loaded.tuple is None:  # Removed since.
            loaded = Loaded(row)
    answered = yield from _answered(address, row, live=False)
    opened = open_checkpoint(address, loaded, answered, live=False)
    states = {task.id: _pointer(address, opened, task) for task in opened.tasks if task.node.subgraphs}
    return snapshot(address, opened, states)


def _answered(address: Address, found: CheckpointTuple, *, live: bool) -> Steps[Collection[str]]:
    """Ids of the answered questions. They are kept with the root's checkpoint."""
    parents = (found.metadata or {}).get("parents") or {}
    if not address.ns:
        return recorded_answers(found.pending_writes or ()).keys()
    if not live or "" not in parents:
        return ()
    root = yield from Load(address.thread_id, "", None)
    return recorded_answers(root.tuple.pending_writes or ()).keys() if root.tuple is not None else ()


def _state_below(address: Address, opened: Opened, task: Task, *, subgraphs: bool) -> Steps[Any]:
    pointer = _pointer(address, opened, task)
    if not subgraphs:
        return pointer
    return (yield from read(address.below(task.node.subgraphs[0], pointer), subgraphs=True))


def _pointer(address: Address, opened: Opened, task: Task) -> dict[str, Any]:
    """The config that names the subgraph which a task runs: the run of it that is under way,
    where the task has begun several."""
    program = task.node.subgraphs[0].program
    ns = task_ns(address.ns, task.name, task.id)
    begun = begun_in(opened, task, program.entrypoint or program.name)
    if begun is not None and names_of(begun) != names_of(ns):
        ns = begun
    return {"configurable": {"thread_id": address.thread_id, "checkpoint_ns": ns}}
