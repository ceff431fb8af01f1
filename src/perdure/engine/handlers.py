"""Failures that a node's error handler takes over. Pure.

A handler is a task of the superstep in which its node failed. The failed task ends as `Handled`:
its error is recorded together with the name of its node, which says that it is not to be tried
again. The handler's task stands in its place: its id follows from the failed task's, and what it
writes is applied where the failed task's writes would have been.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xxhash import xxh3_128_hexdigest

from perdure.engine.calls import parts_of
from perdure.engine.outcomes import is_cancel
from perdure.engine.program import Program, Write
from perdure.engine.tasks import ERROR, ERROR_SOURCE, Error, Finished, Handled, Task, uuid_of
from perdure.errors import LeaseLostError, NodeError, NonDeterminismError, RecordedError, is_invalid_resume

_NOT_HANDLED = (LeaseLostError, NonDeterminismError)
"""Failures of the run rather than of the node."""


def take_over(program: Program, done: Finished, *, stopping: bool = False) -> Task | None:
    """The handler's task for a node that has failed for good, None where nobody handles it.

    With a handler the failure becomes `Handled`.

    Args:
        stopping: The run is being stopped; a failure to end well when cancelled is not the node's.
    """
    if not isinstance(done.outcome, Error):
        return None
    error = done.outcome.error
    if not isinstance(error, Exception) or isinstance(error, _NOT_HANDLED) or is_invalid_resume(error):
        return None
    if stopping and any(map(is_cancel, parts_of(error))):
        return None
    handler = _handler_of(program, done.task, error)
    if handler is not None:
        done.outcome, done.extra = Handled(error), ()
    return handler


def handled_writes(task: Task, error: BaseException) -> list[Write]:
    """What is recorded of a task whose failure its handler takes over."""
    return [(ERROR, error), (ERROR_SOURCE, task.name)]


def restore_handlers(
    program: Program, tasks: Sequence[Task], stored: Mapping[str, Sequence[Write]]
) -> list[Task]:
    """Marks the tasks of which a handled failure is recorded; gives the tasks of their handlers.

    A node that has no handler any more runs again.
    """
    handlers = []
    for task in tasks:
        writes = dict(stored.get(task.id, ()))
        if ERROR_SOURCE not in writes or ERROR not in writes or task.outcome is not None:
            continue
        error = _as_error(writes[ERROR])
        handler = _handler_of(program, task, error)
        if handler is not None:
            task.outcome, task.restored = Handled(error), True
            handlers.append(handler)
    return handlers


def without_open_handlers(tasks: Iterable[Task]) -> list[Task]:
    """The tasks, with failures whose handlers are not through as plain failures again."""
    kept = [task for task in tasks if task.failure is None or task.outcome is not None]
    ids = {task.id for task in kept}
    for task in kept:
        if type(task.outcome) is Handled and _id_of(task) not in ids:
            task.outcome = None
    return kept


def _handler_of(program: Program, task: Task, error: BaseException) -> Task | None:
    node = program.nodes.get(task.node.error_handler) if task.node.error_handler is not None else None
    if node is None:
        return None
    path = (*task.path, "__error_handler__")
    failure = NodeError(task.name, error)
    return Task(_id_of(task), node.name, path, (), node, task.input, failure=failure)


def _id_of(failed: Task) -> str:
    return uuid_of(xxh3_128_hexdigest(f"{failed.id}\0__error_handler__".encode()))


def _as_error(value: Any) -> BaseException:
    """The recorded error; savers of other makes may give its text."""
    if isinstance(value, BaseException):
        return value
    return RecordedError(str(value).partition("(")[0], (value,))
