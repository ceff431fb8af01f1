"""The step that a stored checkpoint leaves open: its tasks, and what is recorded of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.checkpoint.base import CheckpointTuple
from perdure.engine.opening import restore_tasks, writes_of_no_task
from perdure.engine.program import Program, Standing
from perdure.engine.rules import State, apply_writes, next_tasks
from perdure.engine.tasks import Handled, Task, Value


def plan_open_step(
    program: Program, state: State, found: CheckpointTuple, ns: str, version: Callable[[], Any]
) -> tuple[list[Task], set[str]]:
    """The tasks of the open step, packets first, then nodes as the workflow names them.

    What a Command has put beside the checkpoint is part of the state in which they start, and is
    applied to it; the channels that this changed are given too.

    Args:
        version: Gives the next version of a channel; asked only where something changes.
    """
    pending = found.pending_writes or []
    beside = writes_of_no_task(pending)
    changed = apply_writes(program, state, [], version(), beside, advance=False) if beside else set()
    tasks = due_tasks(program, state, found.checkpoint["id"], ns, step_after(found))
    restore_tasks(program, tasks, pending)
    return tasks, changed


def due_tasks(program: Program, state: State, checkpoint_id: str, ns: str, step: int) -> list[Task]:
    """The tasks that are due, without their inputs, in the order in which the workflow names nodes."""
    known, state.updated = state.updated, None
    tasks = next_tasks(program, state, checkpoint_id, ns, Standing(step, step + 1), read=False)
    state.updated = known
    return tasks


def step_after(found: CheckpointTuple) -> int:
    """Number of the superstep that follows a checkpoint."""
    return int((found.metadata or {}).get("step", -2)) + 1


def is_finished(task: Task) -> bool:
    """Its writes are recorded, or its failure and that a handler has taken it over."""
    return type(task.outcome) in (Value, Handled)
