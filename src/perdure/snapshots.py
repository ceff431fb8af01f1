"""How a thread shows: snapshots, their tasks and the calls of these."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from perdure.interrupts import Interrupt

if TYPE_CHECKING:
    from perdure.checkpoint.base import CheckpointMetadata
    from perdure.config import RunnableConfig
    from perdure.memory_policies import CacheKey
    from perdure.policies import RetryPolicy, TimeoutPolicy


class StateUpdate(NamedTuple):
    """One of the updates that `bulk_update_state` applies."""

    values: dict[str, Any] | None
    as_node: str | None = None
    task_id: str | None = None


@dataclass(frozen=True, slots=True)
class TaskCall:
    """A call that an open task made: what will not be done again, and what is still to do."""

    id: str
    name: str
    state: Literal["finished", "failed", "paused", "running"]
    result: Any = None
    error: BaseException | str | None = None
    started: float | None = None
    """Seconds since the epoch."""
    ended: float | None = None
    """Seconds since the epoch."""


class PregelTask(NamedTuple):
    """A task of the step that comes next."""

    id: str
    name: str
    path: tuple[str | int | tuple[Any, ...], ...]
    error: Exception | str | None = None
    interrupts: tuple[Interrupt, ...] = ()
    state: StateSnapshot | RunnableConfig | None = None
    """For a subgraph: its snapshot, or a config that addresses it."""
    result: Any | None = None
    """What the task returned, when it is finished."""
    calls: tuple[TaskCall, ...] = ()
    """The calls it made, when it is open."""


@dataclass(frozen=True)
class PregelExecutableTask:
    """A task, ready to run."""

    name: str
    input: Any
    proc: Any
    writes: deque[tuple[str, Any]]
    config: RunnableConfig
    triggers: Sequence[str]
    retry_policy: Sequence[RetryPolicy]
    cache_key: CacheKey | None
    id: str
    path: tuple[str | int | tuple[Any, ...], ...]
    writers: Sequence[Any] = ()
    subgraphs: Sequence[Any] = ()
    timeout: TimeoutPolicy | None = None


class StateSnapshot(NamedTuple):
    """A thread as it is, or was, at one checkpoint."""

    values: dict[str, Any] | Any
    next: tuple[str, ...]
    """Names of the nodes that run next."""
    config: RunnableConfig
    """Addresses this checkpoint."""
    metadata: CheckpointMetadata | None
    created_at: str | None
    parent_config: RunnableConfig | None
    """Addresses the checkpoint before."""
    tasks: tuple[PregelTask, ...]
    interrupts: tuple[Interrupt, ...]
    """The questions that are open."""
