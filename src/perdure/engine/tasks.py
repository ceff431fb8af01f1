"""A task: one piece of user code that a superstep runs, its identity and its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from xxhash import xxh3_128_hexdigest

from perdure.slotted import field, slotted

if TYPE_CHECKING:
    from perdure.engine.program import Node, Write
    from perdure.errors import NodeError
    from perdure.types import Command, Interrupt, TimeoutPolicy

PULL = "__pregel_pull"
PUSH = "__pregel_push"
TASKS = "__pregel_tasks"
INPUT = "__input__"
INTERRUPT = "__interrupt__"
RESUME = "__resume__"
ERROR = "__error__"
ERROR_SOURCE = "__error_source_node__"
RETURN = "__return__"
NO_WRITES = "__no_writes__"
SCHEDULED = "__scheduled__"
PREVIOUS = "__previous__"
START = "__start__"
END = "__end__"
NULL_TASK = "00000000-0000-0000-0000-000000000000"

Path: TypeAlias = tuple[Any, ...]


@slotted
class Value:
    """The task returned. For a node: its writes."""

    value: Any


@slotted
class Error:
    """The task failed."""

    error: BaseException


@slotted
class Handled:
    """The task failed, and its node's error handler has taken over."""

    error: BaseException


@slotted
class Paused:
    """The task waits for answers."""

    interrupts: tuple[Interrupt, ...]


@slotted
class Drained:
    """The task stopped at a boundary of its own because a drain was asked for."""

    reason: str


@slotted
class Cancelled:
    """The task was cancelled, or lost its thread's lease, before it had an outcome."""

    cause: BaseException


@slotted
class ForParent:
    """The task addressed a graph above its own."""

    command: Command[Any]


Outcome: TypeAlias = Value | Error | Handled | Paused | Drained | Cancelled | ForParent


@slotted(eq=False)
class Task:
    """One node to run in a superstep."""

    id: str
    name: str
    path: Path
    triggers: tuple[str, ...]
    node: Node
    input: Any
    outcome: Outcome | None = None
    restored: bool = False
    """The outcome was recorded by an earlier run of the same superstep."""
    asked: tuple[Interrupt, ...] = ()
    """Questions that an earlier run of the task left open."""
    halted: bool = False
    """An earlier run of the task stopped at a static breakpoint of a graph in it."""
    timeout: TimeoutPolicy | None = None
    """Instead of the node's: a packet's own."""
    cached: bool = False
    """The outcome was found in the workflow's cache."""
    failure: NodeError | None = None
    """Of an error handler's task: what it is told."""

    @property
    def writes(self) -> Sequence[Write]:
        """What the finished task wrote; nothing when it has not finished."""
        return self.outcome.value if type(self.outcome) is Value else ()


def uuid_of(hexdigest: str) -> str:
    """32 hex digits in the shape of a UUID."""
    return f"{hexdigest[:8]}-{hexdigest[8:12]}-{hexdigest[12:16]}-{hexdigest[16:20]}-{hexdigest[20:]}"


def task_id(checkpoint_id: str, ns: str, step: int, name: str, kind: str, *parts: str) -> str:
    """Id of a node's task: the same in every process that plans the same superstep."""
    text = "".join((ns, str(step), name, kind, *parts))
    return uuid_of(xxh3_128_hexdigest(_raw(checkpoint_id) + text.encode()))


@lru_cache(maxsize=32)
def _raw(uuid: str) -> bytes:
    return bytes.fromhex(uuid.replace("-", ""))


def path_text(path: Any) -> str:
    """A path as text that sorts as the path does: numbers padded to ten digits."""
    if isinstance(path, tuple):
        return "~" + ", ".join(map(path_text, path))
    if isinstance(path, int):
        return f"{path:010d}"
    return str(path)


def path_key(task: Task) -> str:
    """Orders the tasks of a superstep as their writes are applied: nodes by name, then packets."""
    return path_text(task.path[:3])


@slotted
class Finished:
    """A task that ended, as the driver tells the loop."""

    task: Task
    outcome: Outcome
    extra: Sequence[Write] = field(default_factory=tuple)
