"""Every error perdure raises, and the signals that steer a run.

Errors are ordinary exceptions with one root, `PerdureError`, so that `except PerdureError`
catches whatever the library itself has to say. Signals (`GraphBubbleUp` and below) pause, end
or redirect a run from inside user code; they are `BaseException`s, so that an
`except Exception` around a step cannot swallow a pause.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from perdure.interrupts import Interrupt
from perdure.warnings import PerdureDeprecatedSinceV10

if TYPE_CHECKING:
    from perdure.types import Command

__all__ = [
    "CancelSignal",
    "ContextError",
    "DatabaseLockedError",
    "DrainSignal",
    "EmptyChannelError",
    "EmptyInputError",
    "ErrorCode",
    "GraphBubbleUp",
    "GraphDrained",
    "GraphInterrupt",
    "GraphRecursionError",
    "InvalidUpdateError",
    "LeaseLostError",
    "LeaseLostSignal",
    "MissingThreadIdError",
    "NewerFormatError",
    "NodeCancelledError",
    "NodeError",
    "NodeInterrupt",
    "NodeTimeoutError",
    "NonDeterminismError",
    "NotADatabaseError",
    "ParentCommand",
    "PerdureError",
    "ReadOnlyDatabaseError",
    "RecordedError",
    "SaverClosedError",
    "StoreFormatError",
    "TaskNotFound",
    "ThreadBusyError",
    "UnknownInterruptError",
    "UnknownTypeError",
    "UnstorableError",
    "create_error_message",
    "is_invalid_resume",
    "mark_invalid_resume",
]


class ErrorCode(Enum):
    """Stable names of the faults that have a page of their own in the documentation."""

    GRAPH_RECURSION_LIMIT = "GRAPH_RECURSION_LIMIT"
    INVALID_CONCURRENT_GRAPH_UPDATE = "INVALID_CONCURRENT_GRAPH_UPDATE"
    INVALID_GRAPH_NODE_RETURN_VALUE = "INVALID_GRAPH_NODE_RETURN_VALUE"
    MULTIPLE_SUBGRAPHS = "MULTIPLE_SUBGRAPHS"
    INVALID_CHAT_HISTORY = "INVALID_CHAT_HISTORY"


def create_error_message(*, message: str, error_code: ErrorCode) -> str:
    """Appends the address of the page that explains the code; the code is its last part."""
    page = f"https://docs.langchain.com/oss/python/langgraph/errors/{error_code.value}"
    return f"{message}\nMore about this error: {page}"


def _rebuild(cls: type[BaseException], args: tuple[Any, ...], attributes: dict[str, Any]) -> BaseException:
    error = cls.__new__(cls, *args)
    error.__dict__.update(attributes)
    return error


class _Rebuilt(BaseException):
    """Copied and pickled without the constructor, whose parameters differ from `args`."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


# -- signals ---------------------------------------------------------------------------------


class GraphBubbleUp(_Rebuilt):
    """Base of what travels through user code to steer the run. Let it pass."""


class GraphInterrupt(GraphBubbleUp):
    """Pauses the run until the questions it carries are answered."""

    def __init__(self, interrupts: Sequence[Interrupt] = ()) -> None:
        super().__init__(interrupts)

    @property
    def interrupts(self) -> Sequence[Interrupt]:
        """The questions, in the order in which they were asked."""
        questions: Sequence[Interrupt] = self.args[0]
        return questions


class NodeInterrupt(GraphInterrupt):
    """Pauses the run when raised by a node, and again on each resume. Use `interrupt` instead."""

    def __init__(self, value: Any, id: str | None = None) -> None:
        warnings.warn(
            "`NodeInterrupt` is deprecated. Please use `perdure.types.interrupt` instead.",
            PerdureDeprecatedSinceV10,
            stacklevel=2,
        )
        super().__init__([Interrupt(value) if id is None else Interrupt(value, id)])


class ParentCommand(GraphBubbleUp):
    """Carries a Command out of a graph to the parent that it addresses."""

    args: tuple[Command[Any]]

    def __init__(self, command: Command[Any]) -> None:
        super().__init__(command)

    @property
    def command(self) -> Command[Any]:
        return self.args[0]


class DrainSignal(GraphBubbleUp):
    """Ends a run at the boundary it has reached, because a drain was requested."""

    def __init__(self, reason: str = "shutdown") -> None:
        super().__init__(reason)
        self.reason = reason


class CancelSignal(GraphBubbleUp):
    """Stops a task because a sibling failed, its time was up or its caller cancelled it."""


class LeaseLostSignal(GraphBubbleUp):
    """Stops a task because its run does not hold its thread any more."""


# -- ordinary errors: the root, then by what the reader does next ------------------------------


class PerdureError(_Rebuilt, Exception):
    """Root of all errors that perdure raises."""


# Change the program.


class ContextError(PerdureError, RuntimeError):
    """Something that needs a run was called outside of a runnable context."""


class InvalidUpdateError(PerdureError):
    """What was written to a channel cannot be applied: wrong kind, or too many writers."""


class EmptyChannelError(PerdureError):
    """A channel was read that holds no value."""


class GraphRecursionError(PerdureError, RecursionError):
    """The run used up its supersteps before it was done.

    The last checkpoint is saved: `invoke(None, config)` goes on with a new budget.
    """


class NonDeterminismError(PerdureError):
    """The code made another call than the one recorded at this place."""


class UnstorableError(PerdureError, TypeError):
    """A value cannot be stored."""

    def __init__(self, message: str, *, path: str | Sequence[str | int] = "", type_name: str = "") -> None:
        super().__init__(message)
        self.path = path if isinstance(path, str) else tuple(path)
        """Where inside the value: as text (`['rows'][3].conn`), or step by step from the outside in."""
        self.type_name = type_name


class UnknownTypeError(PerdureError, TypeError):
    """Stored bytes name a type that may not be built; register it to read them."""


# Give the run what it lacks.


class EmptyInputError(PerdureError):
    """A run was started without input, and there is nothing to resume."""


class MissingThreadIdError(PerdureError, ValueError):
    """A checkpointer is set, but the config names no thread: give `thread_id` (and, if wanted,
    `checkpoint_ns`, `checkpoint_id`) under `config["configurable"]`."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or " ".join((self.__doc__ or "").split()))


class UnknownInterruptError(PerdureError):
    """An answer was given to a question that is not open."""

    def __init__(
        self,
        message: str,
        *,
        reason: Literal["not_pending", "empty_map", "ambiguous"] = "not_pending",
        interrupt_ids: Sequence[str] = (),
        pending_ids: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.interrupt_ids = tuple(interrupt_ids)
        """The ids that were answered."""
        self.pending_ids = tuple(pending_ids)
        """The ids that are open."""


_INVALID_RESUME = "The answer given to interrupt() does not fit its response_schema."


def mark_invalid_resume(error: BaseException) -> None:
    """Notes on a validation error that it was an answer which did not fit its schema."""
    if not is_invalid_resume(error):
        error.add_note(_INVALID_RESUME)


def is_invalid_resume(error: BaseException) -> bool:
    """Whether a run failed because the answer did not fit the `response_schema` it was asked
    with. Nothing was saved; the question can be answered again."""
    return _INVALID_RESUME in getattr(error, "__notes__", ())


# Run it again, later or elsewhere.


class GraphDrained(PerdureError):
    """The run ended early at a boundary because a drain was requested; `invoke(None)` resumes it."""

    def __init__(self, reason: str = "shutdown") -> None:
        super().__init__(f"Graph drained: {reason}")
        self.reason = reason


class ThreadBusyError(PerdureError):
    """Another run holds the thread."""

    def __init__(
        self,
        thread_id: str,
        holder: str = "another run",
        advice: str = 'run again when it has ended, or wait for it with on_busy="wait"',
    ) -> None:
        super().__init__(f"thread {thread_id!r} is held by {holder}; {advice}")
        self.thread_id = thread_id
        self.holder = holder


class LeaseLostError(PerdureError):
    """This run does not hold its thread any more, and wrote nothing since it lost it."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"the run lost its lease on thread {thread_id!r} to another run; "
            "what it did since was not stored. Load the thread again"
        )
        self.thread_id = thread_id


class NodeCancelledError(PerdureError):
    """User code of a node raised `asyncio.CancelledError` although nobody cancelled the run."""

    def __init__(self, node: str, message: str | None = None) -> None:
        super().__init__(message or f"Node {node!r} raised asyncio.CancelledError")
        self.node = node


class NodeTimeoutError(PerdureError):
    """An attempt of a node or task took longer than its TimeoutPolicy allows."""

    def __init__(
        self,
        node: str,
        elapsed: float,
        *,
        kind: Literal["idle", "run"],
        idle_timeout: float | None = None,
        run_timeout: float | None = None,
    ) -> None:
        timeout = idle_timeout if kind == "idle" else run_timeout
        if timeout is None:
            raise ValueError(f"a time-out of kind {kind!r} needs {kind}_timeout")
        progress = " without making progress" if kind == "idle" else ""
        super().__init__(
            f"Node {node!r} exceeded its {kind} timeout of {timeout:.3f}s{progress} "
            f"(elapsed: {elapsed:.3f}s)."
        )
        self.node = node
        self.elapsed = elapsed
        self.kind = kind
        self.timeout = timeout
        self.idle_timeout = idle_timeout
        self.run_timeout = run_timeout


class TaskNotFound(PerdureError):
    """A task was asked for that is not among those of its checkpoint."""


class RecordedError(PerdureError):
    """A recorded failure whose own class is not imported here.

    `type_name` names that class; `args` are what it was raised with.
    """

    def __init__(self, type_name: str, args: Sequence[Any] = ()) -> None:
        super().__init__(*args)
        self.type_name = type_name

    def __str__(self) -> str:
        return f"{self.type_name}: {', '.join(str(arg) for arg in self.args)}"


# Look after the store.


class SaverClosedError(PerdureError):
    """The saver is closed: open a new one, or move the run inside its `with` block."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.__doc__)


class StoreFormatError(PerdureError):
    """The place where threads are kept cannot be used as it is."""


class NotADatabaseError(StoreFormatError):
    """The file is not a database: name another one."""


class NewerFormatError(StoreFormatError):
    """The store was written by a newer perdure: upgrade, or name another one."""


class DatabaseLockedError(StoreFormatError):
    """Another process kept the database locked for longer than `busy_timeout`."""


class ReadOnlyDatabaseError(StoreFormatError):
    """The database cannot be written to: check the rights of the file and its folder."""


@dataclass(frozen=True)
class NodeError:
    """What an error handler is told about the failure that it handles."""

    node: str
    """The node that failed."""
    error: BaseException
