"""Shapes of what `stream(version="v2")` yields and of the payloads inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, NotRequired

from typing_extensions import TypeAliasType, TypedDict

from perdure.interrupts import Interrupt
from perdure.typing import OutputT, ResultT, StateT

if TYPE_CHECKING:
    from perdure.config import RunnableConfig
    from perdure.snapshots import StateSnapshot


class TaskPayload(TypedDict):
    """A task that starts."""

    id: str
    name: str
    input: Any
    triggers: list[str]
    metadata: NotRequired[dict[str, Any]]


class TaskResultPayload(TypedDict):
    """A task that ended."""

    id: str
    name: str
    error: str | None
    interrupts: list[dict[str, Any]]
    result: dict[str, Any]


class CheckpointTask(TypedDict):
    """A task of the step that follows a checkpoint."""

    id: str
    name: str
    error: NotRequired[str]
    result: NotRequired[Any]
    interrupts: NotRequired[list[dict[str, Any]]]
    state: StateSnapshot | RunnableConfig | None


class CheckpointPayload(TypedDict, Generic[StateT]):
    """A checkpoint that was saved."""

    config: RunnableConfig | None
    metadata: dict[str, Any]
    values: StateT
    next: list[str]
    parent_config: RunnableConfig | None
    tasks: list[CheckpointTask]


class _DebugCheckpoint(TypedDict, Generic[StateT]):
    step: int
    timestamp: str
    type: Literal["checkpoint"]
    payload: CheckpointPayload[StateT]


class _DebugTask(TypedDict):
    step: int
    timestamp: str
    type: Literal["task"]
    payload: TaskPayload


class _DebugTaskResult(TypedDict):
    step: int
    timestamp: str
    type: Literal["task_result"]
    payload: TaskResultPayload


DebugPayload = TypeAliasType(
    "DebugPayload",
    _DebugCheckpoint[StateT] | _DebugTask | _DebugTaskResult,
    type_params=(StateT,),
)
"""A checkpoint or task event with its step and time."""


class ValuesStreamPart(TypedDict, Generic[ResultT]):
    """The state after a step, and the questions it is paused on."""

    type: Literal["values"]
    ns: tuple[str, ...]
    data: ResultT
    interrupts: tuple[Interrupt, ...]


class UpdatesStreamPart(TypedDict):
    """What one task wrote, under its name."""

    type: Literal["updates"]
    ns: tuple[str, ...]
    data: dict[str, Any]


class MessagesStreamPart(TypedDict):
    """A token or message of a model, and where it came from."""

    type: Literal["messages"]
    ns: tuple[str, ...]
    data: tuple[Any, dict[str, Any]]


class CustomStreamPart(TypedDict):
    """What user code gave to its stream writer."""

    type: Literal["custom"]
    ns: tuple[str, ...]
    data: Any


class CheckpointStreamPart(TypedDict, Generic[StateT]):
    """A checkpoint that was saved."""

    type: Literal["checkpoints"]
    ns: tuple[str, ...]
    data: CheckpointPayload[StateT]


class TasksStreamPart(TypedDict):
    """A task that started or ended; the latter has a `result`."""

    type: Literal["tasks"]
    ns: tuple[str, ...]
    data: TaskPayload | TaskResultPayload


class DebugStreamPart(TypedDict, Generic[StateT]):
    """Everything a debugger wants to see."""

    type: Literal["debug"]
    ns: tuple[str, ...]
    data: DebugPayload[StateT]


StreamPart = TypeAliasType(
    "StreamPart",
    ValuesStreamPart[OutputT]
    | UpdatesStreamPart
    | MessagesStreamPart
    | CustomStreamPart
    | CheckpointStreamPart[StateT]
    | TasksStreamPart
    | DebugStreamPart[StateT],
    type_params=(StateT, OutputT),
)
"""Any part; tell them apart by `type`."""
