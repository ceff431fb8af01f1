"""What a step may reach while it runs: context, store, stream, control."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, cast, get_args, runtime_checkable

from typing_extensions import TypedDict, Unpack

from perdure.context import current_scope
from perdure.typing import ContextT

if TYPE_CHECKING:
    from perdure.store.base import BaseStore

__all__ = [
    "DEFAULT_RUNTIME",
    "BaseUser",
    "ExecutionInfo",
    "RunControl",
    "Runtime",
    "ServerInfo",
    "get_runtime",
]

Boundary = Literal["supersteps", "tasks"]
_BOUNDARIES = get_args(Boundary)


class RunControl:
    """Asks a run to end early, from any thread or from a signal handler.

    Pass it as `control=` to any execution method. After `request_drain` the run finishes what is
    in flight and raises GraphDrained at its next boundary; `invoke(None)` resumes it. A control
    that was used stays used: take a fresh one to resume.

    Args:
        between: Where a run may end: between `supersteps`, or also between the `tasks` that an
            entrypoint calls.
    """

    __slots__ = ("_reason", "between")

    def __init__(self, between: Boundary = "supersteps") -> None:
        if between not in _BOUNDARIES:
            raise ValueError(f"between must be 'supersteps' or 'tasks', not {between!r}")
        self.between: Boundary = between
        self._reason: str | None = None

    def request_drain(self, reason: str = "shutdown") -> None:
        """Asks the run to end at its next boundary. Takes no lock; the last reason wins."""
        self._reason = reason

    @property
    def drain_requested(self) -> bool:
        return self._reason is not None

    @property
    def drain_reason(self) -> str | None:
        return self._reason

    def __repr__(self) -> str:
        return f"RunControl(between={self.between!r}, drain_reason={self._reason!r})"


class _ExecutionFields(TypedDict, total=False):
    checkpoint_id: str
    checkpoint_ns: str
    task_id: str
    thread_id: str | None
    run_id: str | None
    node_attempt: int
    node_first_attempt_time: float | None


@dataclass(frozen=True, slots=True)
class ExecutionInfo:
    """Which attempt of which task this is."""

    checkpoint_id: str
    checkpoint_ns: str
    task_id: str
    thread_id: str | None = None
    run_id: str | None = None
    node_attempt: int = 1
    """Number of this attempt, from 1."""
    node_first_attempt_time: float | None = None
    """When the first attempt started, in seconds since the epoch."""

    def patch(self, **changes: Unpack[_ExecutionFields]) -> ExecutionInfo:
        """A copy with some fields changed."""
        return replace(self, **changes)


@runtime_checkable
class BaseUser(Protocol):
    """Who asked a server for the run."""

    @property
    def is_authenticated(self) -> bool: ...
    @property
    def display_name(self) -> str: ...
    @property
    def identity(self) -> str: ...
    @property
    def permissions(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Which deployment runs this, when a server does."""

    assistant_id: str
    graph_id: str
    user: BaseUser | None = None


def _ignore_chunk(chunk: Any, /) -> None:
    """Stream writer of a run without listeners."""


def _ignore_beat() -> None:
    """Heartbeat of a task without time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime(Generic[ContextT]):
    """What the run gives to a step that names a `runtime` parameter."""

    context: ContextT = cast(ContextT, None)  # noqa: RUF009 - a type hint, nothing is called
    """What the caller passed as `context=`: user id, connections, ..."""
    store: BaseStore | None = None
    """Memory across threads."""
    stream_writer: Callable[[Any], None] = _ignore_chunk
    """Writes to the `custom` stream."""
    heartbeat: Callable[[], None] = _ignore_beat
    """Tells the idle time limit that the step makes progress."""
    previous: Any = None
    """What the entrypoint saved for this thread the last time."""
    execution_info: ExecutionInfo | None = None
    server_info: ServerInfo | None = None
    control: RunControl | None = None
    """Of the run; never None inside of one."""

    @property
    def drain_requested(self) -> bool:
        """Whether the run was asked to end early: a good moment to return."""
        return self.control is not None and self.control.drain_requested

    @property
    def drain_reason(self) -> str | None:
        return None if self.control is None else self.control.drain_reason

    def merge(self, other: Runtime[ContextT]) -> Runtime[ContextT]:
        """A copy in which everything that `other` gives replaces what is here."""
        return replace(self, **{name: getattr(other, name) for name in _given(other)})

    def override(self, **changes: Any) -> Runtime[ContextT]:
        """A copy with some fields changed."""
        return replace(self, **changes)

    def patch_execution_info(self, **changes: Unpack[_ExecutionFields]) -> Runtime[ContextT]:
        """A copy with fields of `execution_info` changed. Raises RuntimeError if there is none."""
        if self.execution_info is None:
            raise RuntimeError("Cannot patch execution_info before it has been set")
        return replace(self, execution_info=self.execution_info.patch(**changes))


DEFAULT_RUNTIME: Runtime[Any] = Runtime()
"""The runtime that gives nothing."""

_DEFAULTS = {f.name: getattr(DEFAULT_RUNTIME, f.name) for f in fields(Runtime)}


def _given(runtime: Runtime[Any]) -> list[str]:
    return [name for name, empty in _DEFAULTS.items() if getattr(runtime, name) is not empty]


def get_runtime(context_schema: type[ContextT] | None = None) -> Runtime[ContextT]:
    """The runtime of the step that is running. Raises ContextError outside of a run.

    Args:
        context_schema: Only tells type checkers what `context` is.
    """
    return cast("Runtime[ContextT]", current_scope().runtime)
