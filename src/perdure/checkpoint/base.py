"""The documented saver port: what a checkpoint is, and the methods that keep it.

Any class with these methods can be handed to `compile(checkpointer=...)`. A saver of one's own
need only override the sync or the async half: the async methods call their sync twins, in a
worker thread unless the class says `blocking = False`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, ClassVar, Generic, Literal, NamedTuple, NotRequired, Self, TypeAlias, TypedDict, cast

from typing_extensions import TypeVar

from perdure.checkpoint.metadata import (
    EXCLUDED_METADATA_KEYS,
    CheckpointMetadata,
    get_checkpoint_metadata,
    get_serializable_checkpoint_metadata,
)
from perdure.checkpoint.wire import Wire, wire
from perdure.errors import EmptyChannelError
from perdure.ids import new_checkpoint_id

__all__ = [
    # what is kept
    "ChannelVersions",
    "Checkpoint",
    "CheckpointMetadata",
    "CheckpointTuple",
    "Config",
    "DeltaChannelHistory",
    "PendingWrite",
    # who keeps it
    "BaseCheckpointSaver",
    # small tools
    "EXCLUDED_METADATA_KEYS",
    "WRITES_IDX_MAP",
    "EmptyChannelError",
    "copy_checkpoint",
    "create_checkpoint",
    "empty_checkpoint",
    "get_checkpoint_id",
    "get_checkpoint_metadata",
    "get_serializable_checkpoint_metadata",
    "writes_sort_key",
]

V = TypeVar("V", int, float, str, default=int)

Config: TypeAlias = Mapping[str, Any]
"""A config; the saver reads what lies under `configurable`."""
ChannelVersions: TypeAlias = dict[str, Any]
"""Channel -> version: an int, a float or a string that grows."""
PendingWrite: TypeAlias = tuple[str, str, Any]
"""(task id, channel, value)."""

WRITES_IDX_MAP: dict[str, int] = {
    "__error__": -1,
    "__scheduled__": -2,
    "__interrupt__": -3,
    "__resume__": -4,
}
"""Channels of which a task has one write at most, and the index of that write."""

FORMAT = 2
"""`v` of checkpoints that the helpers below make; the engine writes 4."""
_PAGE = 64


class Checkpoint(TypedDict):
    """The state of one graph at one moment."""

    v: int
    """Format of the record; kept as it is."""
    id: str
    ts: str
    """When it was made: ISO 8601, UTC."""
    channel_values: dict[str, Any]
    """Channels that hold something."""
    channel_versions: ChannelVersions
    versions_seen: dict[str, ChannelVersions]
    """Node -> versions of the channels that it has seen last."""
    updated_channels: list[str] | None
    """Channels written by the step that led here, sorted."""


class CheckpointTuple(NamedTuple):
    """A checkpoint with all that belongs to it."""

    config: Config
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    parent_config: Config | None = None
    pending_writes: list[PendingWrite] | None = None
    """In the order (task path, task id, index)."""


class DeltaChannelHistory(TypedDict):
    """What a delta channel is rebuilt from."""

    writes: list[PendingWrite]
    """Oldest first."""
    seed: NotRequired[Any]
    """The nearest stored value; the key is absent where there is none down to the root."""


# -- small tools ---------------------------------------------------------------------------------


def empty_checkpoint() -> Checkpoint:
    """A checkpoint of nothing, with an id of its own."""
    return {
        "v": FORMAT,
        "id": new_checkpoint_id(time.time_ns(), None, None, -2),
        "ts": _now(),
        "channel_values": {},
        "channel_versions": {},
        "versions_seen": {},
        "updated_channels": None,
    }


def copy_checkpoint(checkpoint: Checkpoint) -> Checkpoint:
    """A copy whose containers can be changed; the values themselves are shared."""
    copy = cast(Checkpoint, dict(checkpoint))
    copy["channel_values"] = dict(checkpoint["channel_values"])
    copy["channel_versions"] = dict(checkpoint["channel_versions"])
    copy["versions_seen"] = {node: dict(seen) for node, seen in checkpoint["versions_seen"].items()}
    updated = checkpoint.get("updated_channels")
    copy["updated_channels"] = None if updated is None else list(updated)
    return copy


def create_checkpoint(
    checkpoint: Checkpoint,
    channels: Mapping[str, Any] | None,
    step: int,
    *,
    id: str | None = None,
    updated_channels: Iterable[str] | None = None,
) -> Checkpoint:
    """The checkpoint that follows `checkpoint`, with the present values of the channels.

    `channels=None` keeps the values as they are.
    """
    if channels is None:
        values = dict(checkpoint["channel_values"])
    else:
        values = {}
        for name, channel in channels.items():
            if name in checkpoint["channel_versions"] and channel.is_available():
                values[name] = channel.checkpoint()
    new = copy_checkpoint(checkpoint)
    new["v"] = FORMAT
    new["id"] = id or new_checkpoint_id(time.time_ns(), checkpoint["id"], None, step)
    new["ts"] = _now()
    new["channel_values"] = values
    new["updated_channels"] = None if updated_channels is None else sorted(updated_channels)
    return new


def get_checkpoint_id(config: Config) -> str | None:
    """The checkpoint that the config names, if it names one."""
    configurable = config["configurable"]
    return configurable.get("checkpoint_id") or configurable.get("thread_ts") or None


def writes_sort_key(task_path: str, task_id: str, idx: int) -> tuple[str, str, int]:
    """What pending writes are ordered by."""
    return task_path, task_id, idx


def _now() -> str:
    return datetime.now(UTC).isoformat()


# -- the port ------------------------------------------------------------------------------------


class BaseCheckpointSaver(Generic[V]):
    """Keeps the checkpoints of threads, and what their tasks have written since.

    Args:
        serde: How values become bytes: an object with `dumps_typed` and `loads_typed`, or with
            `dumps` and `loads`. The built-in codec if not given.
    """

    blocking: ClassVar[bool] = True
    """Whether sync methods may wait for something; False lets an event loop call them."""

    def __init__(self, *, serde: Any = None) -> None:
        self._wire = wire(serde)
        self.serde: Any = self._wire.serde

    @property
    def config_specs(self) -> list[Any]:
        """Settings that the saver adds to a graph's config: none."""
        return []

    def with_allowlist(self, extra: Iterable[Any]) -> Self:
        """A saver on the same place that may build these types from bytes too."""
        extended = self._wire.with_types(tuple(extra))
        return self if extended is self._wire else self._with_wire(extended)

    def _with_wire(self, extended: Wire) -> Self:
        clone = object.__new__(type(self))
        clone.__dict__.update(self.__dict__)
        clone._wire, clone.serde = extended, extended.serde
        return clone

    # -- sync

    def get(self, config: Config) -> Checkpoint | None:
        """The checkpoint that the config names, or the newest of its namespace."""
        found = self.get_tuple(config)
        return None if found is None else found.checkpoint

    def get_tuple(self, config: Config) -> CheckpointTuple | None:
        """As `get`, with metadata, parent and pending writes."""
        raise self._lacks("get_tuple")

    def list(
        self,
        config: Config | None,
        *,
        filter: dict[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first.

        Args:
            config: Thread, and namespace and checkpoint where it names them; None for all threads.
            filter: Metadata keys and the values that they must equal.
            before: Only checkpoints older than the one that this config names.
            limit: How many at most.
        """
        raise self._lacks("list")

    def put(
        self,
        config: Config,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Config:
        """Stores a checkpoint whose parent is the one that `config` names, if any.

        `new_versions` holds the channels that changed. Returns the config that names the
        checkpoint.
        """
        raise self._lacks("put")

    def put_writes(
        self, config: Config, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Stores what a task has written, beside the checkpoint that it started from.

        A write that is already there stays; those of WRITES_IDX_MAP replace it.
        """
        raise self._lacks("put_writes")

    def delete_thread(self, thread_id: str) -> None:
        """Removes everything of the thread; an unknown one is no error."""
        raise self._lacks("delete_thread")

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Removes the checkpoints whose metadata names one of these runs, and their writes."""
        raise self._lacks("delete_for_runs")

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies a thread with its whole history; what the target held is replaced."""
        raise self._lacks("copy_thread")

    def prune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: Literal["keep_latest", "delete"] = "keep_latest",
    ) -> None:
        """Keeps the newest checkpoint of each namespace with its writes, or nothing."""
        raise self._lacks("prune")

    def get_delta_channel_history(
        self, *, config: Config, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Per channel what was written before the checkpoint, back to the nearest stored value."""
        if not channels:
            return {}
        walk = DeltaWalk(channels)
        target = self.get_tuple(config)
        at = None if target is None else target.parent_config
        while at is not None and walk.open:
            found = self.get_tuple(at)
            if found is None:
                break
            walk.visit(found)
            at = found.parent_config
        return walk.result()

    def get_next_version(self, current: V | None, channel: None = None) -> V:
        """The version that follows `current`."""
        if isinstance(current, str):
            raise NotImplementedError(f"{type(self).__name__} does not count in strings")
        return cast(V, 1 if current is None else current + 1)  # type: ignore[redundant-cast]

    # -- async

    async def aget(self, config: Config) -> Checkpoint | None:
        """Async `get`."""
        found = await self.aget_tuple(config)
        return None if found is None else found.checkpoint

    async def aget_tuple(self, config: Config) -> CheckpointTuple | None:
        """Async `get_tuple`."""
        return await self._aside(self.get_tuple, config)

    async def alist(
        self,
        config: Config | None,
        *,
        filter: dict[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Async `list`."""
        items = self.list(config, filter=filter, before=before, limit=limit)
        while page := await self._aside(_take, items):
            for item in page:
                yield item

    async def aput(
        self,
        config: Config,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Config:
        """Async `put`."""
        return await self._aside(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: Config, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Async `put_writes`."""
        # Savers that are older than paths take none.
        path = (task_path,) if task_path else ()
        await self._aside(self.put_writes, config, writes, task_id, *path)

    async def adelete_thread(self, thread_id: str) -> None:
        """Async `delete_thread`."""
        await self._aside(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Async `delete_for_runs`."""
        await self._aside(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Async `copy_thread`."""
        await self._aside(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: Literal["keep_latest", "delete"] = "keep_latest",
    ) -> None:
        """Async `prune`."""
        await self._aside(lambda: self.prune(thread_ids, strategy=strategy))

    async def aget_delta_channel_history(
        self, *, config: Config, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Async `get_delta_channel_history`."""
        return await self._aside(lambda: self.get_delta_channel_history(config=config, channels=channels))

    async def _aside(self, method: Callable[..., _R], *args: Any) -> _R:
        if self.blocking:
            # Not loaded by programs that never run a loop.
            from asyncio import to_thread

            return await to_thread(method, *args)
        return method(*args)

    def _lacks(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no method {method!r}")


_R = TypeVar("_R")


def _take(items: Iterator[CheckpointTuple]) -> list[CheckpointTuple]:
    return list(islice(items, _PAGE))


class DeltaWalk:
    """Gathers the history of delta channels from ancestors, nearest first."""

    def __init__(self, channels: Iterable[str]) -> None:
        self.found: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in channels}
        self.open = set(self.found)
        """Channels whose seed has not been met."""

    def visit(self, ancestor: CheckpointTuple) -> None:
        """Takes the ancestor's writes, and its value as the seed where it has one."""
        values = ancestor.checkpoint["channel_values"]
        for write in reversed(ancestor.pending_writes or ()):
            if write[1] in self.open:
                self.found[write[1]]["writes"].append(write)
        for name in [name for name in self.open if name in values]:
            self.found[name]["seed"] = values[name]
            self.open.discard(name)

    def result(self) -> dict[str, DeltaChannelHistory]:
        for history in self.found.values():
            history["writes"].reverse()
        return self.found
