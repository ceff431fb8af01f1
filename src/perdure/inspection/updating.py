"""Changing a thread from outside: the same as if a node had run.

An update works on the thread as its reader sees it. What tasks of the open step have finished
is kept. A node that is due, and in whose name the update writes, has thereby run; the other
tasks of the step stay due. An update in the name of a node that is not part of the open step
gives up what is open there, and goes on where that node's edges lead.

    a node      its writes and its edges
    __input__   a new input, as `invoke` takes it
    __end__     ends the open step with what is recorded of it
    __copy__    a copy of the checkpoint beside it, to be changed without touching the first

Each update of a superstep takes the thread's lease and frees it within one batch. Code of a
run that holds the thread writes under that run's lease instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from perdure.checkpoint.port import Batch, ThreadChanged
from perdure.config import RunnableConfig
from perdure.constants import END
from perdure.engine.effects import Commit, Load, Steps
from perdure.engine.hold import Hold
from perdure.engine.live import DEFAULT_RECURSION_LIMIT, Run
from perdure.engine.opening import restore
from perdure.engine.tasks import INPUT
from perdure.errors import InvalidUpdateError
from perdure.inspection import changes
from perdure.inspection.address import Address, config_of, current_run, locate
from perdure.inspection.drive import Outside, adrive, drive
from perdure.runtime import Runtime
from perdure.types import StateUpdate

if TYPE_CHECKING:
    from perdure.workflow import Workflow

COPY = "__copy__"


def update_state(
    workflow: Workflow, config: Mapping[str, Any], values: Any, as_node: str | None, task_id: str | None
) -> RunnableConfig:
    """See `Workflow.update_state`."""
    return bulk_update_state(workflow, config, [[StateUpdate(values, as_node, task_id)]])


async def aupdate_state(
    workflow: Workflow, config: Mapping[str, Any], values: Any, as_node: str | None, task_id: str | None
) -> RunnableConfig:
    """See `Workflow.aupdate_state`."""
    return await abulk_update_state(workflow, config, [[StateUpdate(values, as_node, task_id)]])


def bulk_update_state(
    workflow: Workflow, config: Mapping[str, Any], supersteps: Sequence[Sequence[StateUpdate]]
) -> RunnableConfig:
    """Makes one checkpoint after another; the updates of an inner sequence make one together.

    Returns the config of the last one.

    Raises:
        ValueError: There is nothing to do.
        InvalidUpdateError: It is not clear which node is meant, or it does not exist.
        ThreadBusyError: A run holds the thread.
    """
    address = locate(workflow, config, strict=True)
    return drive(_update_all(address, supersteps), address.saver, _outside(address))


async def abulk_update_state(
    workflow: Workflow, config: Mapping[str, Any], supersteps: Sequence[Sequence[StateUpdate]]
) -> RunnableConfig:
    """`bulk_update_state` for async callers."""
    address = locate(workflow, config, strict=True)
    return await adrive(_update_all(address, supersteps), address.saver, _outside(address))


def _outside(address: Address) -> Outside:
    config = cast(RunnableConfig, dict(address.config))
    return Outside(config, Runtime(store=address.workflow.store))


def _update_all(address: Address, supersteps: Sequence[Sequence[StateUpdate]]) -> Steps[RunnableConfig]:
    steps = [[StateUpdate(*update) for update in updates] for updates in supersteps]
    if not steps:
        raise ValueError("No supersteps provided: give at least one sequence of updates")
    if not all(steps):
        raise ValueError("No updates provided: each superstep needs at least one StateUpdate")
    made: Any = None
    for updates in steps:
        made = yield from _update(address, updates)
        address = address.at(made["configurable"]["checkpoint_id"])
    return cast(RunnableConfig, made)


def _update(address: Address, updates: Sequence[StateUpdate]) -> Steps[RunnableConfig]:
    """Makes one checkpoint; gives its config."""
    hold = _own_hold(address)
    while True:
        loaded = yield from Load(address.thread_id, address.ns, address.checkpoint_id)
        if loaded.tuple is None and address.checkpoint_id is not None:
            raise InvalidUpdateError(
                f"thread {address.thread_id!r} has no checkpoint {address.checkpoint_id}; "
                "leave checkpoint_id out to update the thread as it stands"
            )
        for update in updates:
            call = loaded.infos.get(update.task_id or "")
            if call is not None:
                raise InvalidUpdateError(
                    f"task_id={update.task_id!r} is a call of {call.name!r}, whose result cannot be set; "
                    "name a task of the step, or leave task_id out"
                )
        r = _run_at(address)
        restore(r, loaded, loaded.tuple)
        r.stop = r.step + DEFAULT_RECURSION_LIMIT
        if hold is not None:
            r.hold = hold
        change = yield from _change(r, changes.Base(loaded, live=address.checkpoint_id is None), updates)
        batch = Batch(
            r.hold.thread_id,
            r.hold.epoch,
            claim=hold is None,
            release=hold is None,
            records=change.records,
            checkpoint=change.checkpoint,
        )
        try:
            yield from Commit(batch)
        except ThreadChanged:
            continue
        break
    made = change.checkpoint.checkpoint["id"]
    then = cast(Any, updates[0].values)
    if updates[0].as_node == COPY and then:
        return (yield from _update(address.at(made), [StateUpdate(*update) for update in then]))
    parents = change.checkpoint.metadata["parents"]
    return cast(RunnableConfig, config_of(address.thread_id, address.ns, made, parents))


def _own_hold(address: Address) -> Hold | None:
    """The grip on the thread of the run whose code calls, where it is this thread's run."""
    run = current_run()
    if run is None or run.saver is not address.saver or run.thread_id != address.thread_id:
        return None
    return run.hold


def _run_at(address: Address) -> Run:
    """A run that stands where the update is to be made, and runs nothing."""
    workflow = address.workflow
    return Run(
        program=workflow.program,
        input=None,
        config=cast(RunnableConfig, dict(address.config)),
        options=changes.OPTIONS,
        saver=address.saver,
        thread_id=address.thread_id,
        ns=address.ns,
        store=workflow.store,
    )


def _change(r: Run, base: changes.Base, updates: Sequence[StateUpdate]) -> Steps[changes.Change]:
    special = [update.as_node for update in updates if update.as_node in (INPUT, END, COPY)]
    if not special:
        return (yield from changes.as_nodes(r, base, updates))
    if len(updates) > 1:
        raise InvalidUpdateError(
            f"as_node={special[0]!r} cannot be combined with other updates of its superstep"
        )
    values = updates[0].values
    if special[0] == INPUT:
        return changes.as_input(r, base, values)
    if special[0] == COPY:
        return changes.as_copy(r, base, values)
    return changes.as_end(r, base, values)
