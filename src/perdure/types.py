"""The values that programs hold: commands, questions, policies, snapshots."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    TypeAlias,
    overload,
)

from typing_extensions import TypeAliasType, TypeVar, override

from perdure import doors
from perdure.context import current_scope
from perdure.interrupts import Interrupt
from perdure.policies import RetryPolicy, TimeoutPolicy, default_retry_on
from perdure.typing import ResultT
from perdure.warnings import PerdureDeprecatedSinceV11

if TYPE_CHECKING:
    from perdure.checkpoint.base import BaseCheckpointSaver
    from perdure.memory_policies import CacheKey, CachePolicy, TracePolicy, omit_payload
    from perdure.parts import (
        CheckpointPayload,
        CheckpointStreamPart,
        CheckpointTask,
        CustomStreamPart,
        DebugPayload,
        DebugStreamPart,
        MessagesStreamPart,
        StreamPart,
        TaskPayload,
        TaskResultPayload,
        TasksStreamPart,
        UpdatesStreamPart,
        ValuesStreamPart,
    )
    from perdure.snapshots import (
        PregelExecutableTask,
        PregelTask,
        StateSnapshot,
        StateUpdate,
        TaskCall,
    )

__all__ = [
    # what user code says to the run
    "interrupt",
    "Command",
    "Send",
    "Overwrite",
    "StreamWriter",
    # policies
    "RetryPolicy",
    "default_retry_on",
    "TimeoutPolicy",
    "CachePolicy",
    "CacheKey",
    "TracePolicy",
    "omit_payload",
    # options of a run
    "All",
    "Checkpointer",
    "Durability",
    "StreamMode",
    "ensure_valid_checkpointer",
    # what a run and its thread show
    "Interrupt",
    "GraphOutput",
    "StateSnapshot",
    "StateUpdate",
    "PregelTask",
    "PregelExecutableTask",
    "TaskCall",
    # parts of a stream
    "StreamPart",
    "ValuesStreamPart",
    "UpdatesStreamPart",
    "MessagesStreamPart",
    "CustomStreamPart",
    "CheckpointStreamPart",
    "TasksStreamPart",
    "DebugStreamPart",
    "TaskPayload",
    "TaskResultPayload",
    "CheckpointTask",
    "CheckpointPayload",
    "DebugPayload",
]

# Programs that neither spell out what a stream yields, nor look at threads, nor cache need none of these.
__getattr__, __dir__ = doors.late(
    __name__,
    {
        "perdure.parts": (
            "CheckpointPayload",
            "CheckpointStreamPart",
            "CheckpointTask",
            "CustomStreamPart",
            "DebugPayload",
            "DebugStreamPart",
            "MessagesStreamPart",
            "StreamPart",
            "TaskPayload",
            "TaskResultPayload",
            "TasksStreamPart",
            "UpdatesStreamPart",
            "ValuesStreamPart",
        ),
        "perdure.memory_policies": ("CacheKey", "CachePolicy", "TracePolicy", "omit_payload"),
        "perdure.snapshots": (
            "PregelExecutableTask",
            "PregelTask",
            "StateSnapshot",
            "StateUpdate",
            "TaskCall",
        ),
    },
)

NodeT = TypeVar("NodeT", bound=Hashable, default=str)
AnswerT = TypeVar("AnswerT")

All: TypeAlias = Literal["*"]
"""Every node, where nodes are named."""
Durability: TypeAlias = Literal["sync", "async", "exit"]
"""When what a run did becomes durable: before anything is built on it, behind the run's back, or
when the run ends."""
StreamMode: TypeAlias = Literal["values", "updates", "checkpoints", "tasks", "debug", "messages", "custom"]
"""What a stream tells: the state after each step, what each task wrote, saved checkpoints,
tasks as they start and end, the last two together, tokens, or what user code writes."""
StreamWriter: TypeAlias = Callable[[Any], None]
"""Takes what user code wants to show in the `custom` stream."""
Checkpointer = TypeAliasType("Checkpointer", "BaseCheckpointSaver[Any] | bool | None")
"""A saver; for subgraphs also None (the parent's), True (kept between calls) or False (none)."""


# -- what user code says to the run ------------------------------------------------------------


@overload
def interrupt(value: Any, *, response_schema: type[AnswerT]) -> AnswerT: ...
@overload
def interrupt(value: Any, *, response_schema: Mapping[str, Any] | None = None) -> Any: ...
def interrupt(value: Any, *, response_schema: Any = None) -> Any:
    """Asks the outside a question and returns the answer, in a later run if need be.

    Without an answer the run pauses: `invoke` returns the question under `__interrupt__`. It goes
    on with `Command(resume=answer)`; the node, task or entrypoint starts from its top and this
    call then returns the answer. Answers find the questions of a task by their order.

    Args:
        value: What the question shows. Stored, so it must be storable.
        response_schema: What the answer must be: a JSON schema (shown, not checked), or a
            pydantic model, dataclass or TypedDict to which the answer is converted.

    Raises:
        ContextError: outside of a run.
        pydantic.ValidationError: the answer does not fit; `is_invalid_resume` tells it apart.
    """
    return current_scope().interrupt(value, response_schema)


class Send:
    """Starts a node with an input of its own, once for each Send."""

    __slots__ = ("arg", "node", "timeout")

    node: str
    """The node to start."""
    arg: Any
    """Its input, handed over as it is."""
    timeout: TimeoutPolicy | None
    """Limit of this one task, instead of the node's."""

    def __init__(
        self, node: str, arg: Any, *, timeout: float | timedelta | TimeoutPolicy | None = None
    ) -> None:
        self.node = node
        self.arg = arg
        self.timeout = TimeoutPolicy.coerce(timeout)

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Send):
            return NotImplemented
        return (self.node, self.arg, self.timeout) == (other.node, other.arg, other.timeout)

    @override
    def __hash__(self) -> int:
        return hash((self.node, self.arg, self.timeout))

    @override
    def __repr__(self) -> str:
        limit = f", timeout={self.timeout!r}" if self.timeout is not None else ""
        return f"Send(node={self.node!r}, arg={self.arg!r}{limit})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Command(Generic[NodeT]):
    """Updates the state, says where to go and answers questions, in one value.

    Returned by a node, it acts on the node's graph; given as input, on the thread.
    """

    PARENT: ClassVar[Literal["__parent__"]] = "__parent__"

    graph: str | None = None
    """Addresses another graph than the own one: `Command.PARENT`, or an ancestor by name."""
    update: Any = None
    """What to write: a dict, pairs of key and value, or an instance of a schema class."""
    resume: Any = None
    """The answer to the one open question, or a dict from question ids to answers."""
    goto: Send | Sequence[Send | NodeT] | NodeT = ()
    """Where to go, besides where the node's own edges lead."""

    @override
    def __repr__(self) -> str:
        given = ((name, getattr(self, name)) for name in ("graph", "update", "resume", "goto"))
        return f"Command({', '.join(f'{name}={value!r}' for name, value in given if value)})"


@dataclass(slots=True)
class Overwrite:
    """Replaces the value of a key, past its reducer."""

    value: Any
    type: Literal["__overwrite__"] = "__overwrite__"


# -- options of a run --------------------------------------------------------------------------

_SAVER_METHODS = (("get_tuple", "put", "put_writes"), ("aget_tuple", "aput", "aput_writes"))


def ensure_valid_checkpointer(checkpointer: Any) -> Checkpointer:
    """Gives the checkpointer back. Raises TypeError when it is nothing that could save."""
    if checkpointer is None or isinstance(checkpointer, bool):
        return checkpointer
    if not isinstance(checkpointer, type):
        for methods in _SAVER_METHODS:
            if all(callable(getattr(checkpointer, method, None)) for method in methods):
                saver: BaseCheckpointSaver[Any] = checkpointer
                return saver
    raise TypeError(
        "Invalid checkpointer provided. Expected a saver (an object with the methods of "
        f"`BaseCheckpointSaver`), `True`, `False` or `None`. Received {_described(checkpointer)}. "
        "Pass e.g. `MemorySaver()` or `SqliteSaver(...)`."
    )


def _described(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__} (not an instance of it)"
    if hasattr(value, "__enter__") or hasattr(value, "__aenter__"):
        return f"a {type(value).__name__} (enter it in a `with` block first)"
    return type(value).__name__


# -- what a run and its thread show ------------------------------------------------------------


@dataclass(frozen=True)
class GraphOutput(Generic[ResultT]):
    """What `invoke(version="v2")` returns."""

    value: ResultT
    interrupts: tuple[Interrupt, ...] = ()
    """The questions the run is paused on."""

    def __getitem__(self, key: str) -> Any:
        """Deprecated: the output as it was in version 1."""
        _warn_of_access("`result[key]`")
        if key == "__interrupt__":
            return self.interrupts
        return _fields(self.value)[key]

    def __contains__(self, key: object) -> bool:
        """Deprecated: the output as it was in version 1."""
        _warn_of_access("`key in result`")
        if key == "__interrupt__":
            return bool(self.interrupts)
        return key in _fields(self.value)


def _warn_of_access(spelling: str) -> None:
    warnings.warn(
        f"Accessing GraphOutput via {spelling} is deprecated. Use `result.value` for the output "
        "and `result.interrupts` for the questions.",
        PerdureDeprecatedSinceV11,
        stacklevel=3,
    )


def _fields(value: Any) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    fields: Mapping[Any, Any] = getattr(value, "__dict__", {})
    return fields
