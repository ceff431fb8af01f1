"""A stored checkpoint as its reader sees it. Pure.

The thread as it stands shows what the tasks of the open step have finished as if it were
applied already, and of their questions those that are still open. A checkpoint that was
addressed by its id, or is shown as history, is shown as its step began; beside it lies what
came of each task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, cast

from perdure.checkpoint.base import CheckpointTuple, PendingWrite
from perdure.checkpoint.port import CallInfo, Loaded
from perdure.engine.calls import Ledger
from perdure.engine.program import Program
from perdure.engine.report import result_of
from perdure.engine.rules import apply_writes, open_state, read_channels
from perdure.engine.tasks import ERROR, INTERRUPT, Error, Handled, Outcome, Task, Value
from perdure.inspection.address import Address, config_of
from perdure.inspection.plan import due_tasks, is_finished, plan_open_step, step_after
from perdure.interrupts import Interrupt
from perdure.slotted import slotted
from perdure.snapshots import PregelTask, StateSnapshot, TaskCall


@slotted
class Opened:
    """A checkpoint, looked at: its state, its open step, and what calls have left."""

    found: CheckpointTuple
    values: Any
    next: tuple[str, ...]
    tasks: list[Task]
    ledger: Ledger
    special: Mapping[tuple[str, str], Any]
    """(task, channel) -> what is recorded there last: an error, questions."""
    answered: Collection[str]
    """Ids of the questions that have an answer."""
    live: bool


def missing(address: Address) -> StateSnapshot:
    """What is shown of a thread, or a checkpoint, that is not there."""
    return StateSnapshot({}, (), cast(Any, address.config), None, None, None, (), ())


def open_checkpoint(address: Address, loaded: Loaded, answered: Collection[str], *, live: bool) -> Opened:
    """Looks at a stored checkpoint; there must be one."""
    found = loaded.tuple
    assert found is not None
    program = address.workflow.program
    state = open_state(program, found.checkpoint)

    def version() -> Any:
        return address.documented.get_next_version(max(state.versions.values(), default=None), None)

    tasks, _ = plan_open_step(program, state, found, address.ns, version)
    due = [task.name for task in tasks if task.failure is None]
    if live:
        finished = [task for task in tasks if is_finished(task)]
        ended = bool(tasks) and len(finished) == len(tasks)
        if finished:
            apply_writes(program, state, finished, version(), advance=ended)
        due = [task.name for task in tasks if not is_finished(task)]
        if ended:
            step = step_after(found) + 1
            due = [task.name for task in due_tasks(program, state, found.checkpoint["id"], address.ns, step)]
    pending = found.pending_writes or []
    return Opened(
        found,
        read_channels(state.channels, program.stream),
        tuple(due),
        tasks,
        Ledger.read(pending, loaded.infos, lambda asked: False),
        _special(pending),
        answered,
        live,
    )


def _special(pending: Iterable[PendingWrite]) -> dict[tuple[str, str], Any]:
    return {(task, channel): value for task, channel, value in pending if channel in (ERROR, INTERRUPT)}


def snapshot(address: Address, opened: Opened, states: Mapping[str, Any]) -> StateSnapshot:
    """What a reader gets.

    Args:
        states: Task id -> what is shown of the subgraph that it runs.
    """
    found = opened.found
    tasks = tuple(_shown_task(opened, task, address.workflow.program, states) for task in opened.tasks)
    parents = (found.metadata or {}).get("parents") or {}

    def config(checkpoint_id: str) -> Any:
        return config_of(address.thread_id, address.ns, checkpoint_id, parents)

    return StateSnapshot(
        values=opened.values,
        next=opened.next,
        config=config(found.checkpoint["id"]),
        metadata=found.metadata,
        created_at=found.checkpoint["ts"],
        parent_config=config(found.parent_config["configurable"]["checkpoint_id"])
        if found.parent_config
        else None,
        tasks=tasks,
        interrupts=tuple(question for task in tasks for question in task.interrupts),
    )


# tasks ------------------------------------------------------------------------------------------


def _shown_task(opened: Opened, task: Task, program: Program, states: Mapping[str, Any]) -> PregelTask:
    finished = is_finished(task)
    asked = _asked(opened, task.id, finished=finished)
    error = opened.special.get((task.id, ERROR))
    handled = type(task.outcome) is Handled
    if opened.live and (finished or asked) and not handled:
        error = None  # It was tried again since.
    return PregelTask(
        id=task.id,
        name=task.name,
        path=task.path,
        error=_text(error),
        interrupts=asked,
        state=states.get(task.id),
        result=_result(task, program) if finished and not handled else None,
        calls=_calls(opened, task),
    )


def _asked(opened: Opened, task_id: str, *, finished: bool) -> tuple[Interrupt, ...]:
    asked = tuple(opened.special.get((task_id, INTERRUPT)) or ())
    if not opened.live:
        return asked
    return () if finished else tuple(question for question in asked if question.id not in opened.answered)


def _result(task: Task, program: Program) -> Any:
    found = result_of(task.writes, program.stream)
    return found.get(program.stream) if isinstance(program.stream, str) else found


def _text(error: Any) -> str | None:
    if error is None or isinstance(error, str):
        return error
    return repr(error)


# calls ------------------------------------------------------------------------------------------


def _calls(opened: Opened, task: Task) -> tuple[TaskCall, ...]:
    """The calls that a task made, and those that they made, in the order of their start."""
    infos = opened.ledger.infos
    found = []
    callers = [task.id]
    for caller in callers:
        for call_id in opened.ledger.by_caller.get(caller, ()):
            callers.append(call_id)
            if caller != task.id or not task.node.action.nested:
                found.append(call_id)
    found.sort(key=lambda call_id: infos[call_id].started)
    return tuple(_shown_call(opened, call_id, infos[call_id], task) for call_id in found)


CallState = Literal["finished", "failed", "paused", "running"]


def _shown_call(opened: Opened, call_id: str, info: CallInfo, task: Task) -> TaskCall:
    outcome = opened.ledger.outcomes.get(call_id)
    asked = opened.special.get((call_id, INTERRUPT)) or ()
    state: Literal["finished", "failed", "paused", "running"] = "running"
    if type(outcome) is Value:
        state = "finished"
    elif any(question.id not in opened.answered for question in asked) or _waits(opened, info, outcome, task):
        state = "paused"
    elif isinstance(outcome, Error):
        state = "failed"
    return TaskCall(
        id=call_id,
        name=info.name,
        state=state,
        result=outcome.value if type(outcome) is Value else None,
        error=_text(outcome.error) if state == "failed" and isinstance(outcome, Error) else None,
        started=info.started,
        ended=info.ended if outcome is not None or asked else None,
    )


def _waits(opened: Opened, info: CallInfo, outcome: Outcome | None, task: Task) -> bool:
    """A nested run, of which only the begin is recorded: it waits when the task does that it is
    part of."""
    if info.ns is None or outcome is not None:
        return False
    return bool(_asked(opened, task.id, finished=is_finished(task)))


def begun_in(opened: Opened, task: Task, name: str) -> str | None:
    """Namespace of the last nested run that a task has begun and not ended, by the name of its
    workflow; None where there is none."""
    ledger = opened.ledger
    begun = [
        info
        for call_id in ledger.by_caller.get(task.id, ())
        if (info := ledger.infos[call_id]).ns and info.name == name and call_id not in ledger.outcomes
    ]
    return max(begun, key=lambda info: info.seq).ns if begun else None
