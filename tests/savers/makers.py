"""Short ways to the data that saver tests hand over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from perdure.checkpoint.base import Checkpoint, empty_checkpoint
from perdure.checkpoint.port import Batch, NewCheckpoint, Record
from perdure.context import Scope, scope_var
from perdure.ids import new_checkpoint_id

_last: str | None = None


def config(thread_id: Any = "t", ns: str = "", **more: Any) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, **more}}


def checkpoint(version: Any = 1, **values: Any) -> Checkpoint:
    """A checkpoint with these channel values, newer than all that were made before."""
    global _last
    made = empty_checkpoint()
    made["id"] = _last = new_checkpoint_id(time.time_ns(), None, _last, 0)
    made["channel_values"] = values
    made["channel_versions"] = dict.fromkeys(values, version)
    return made


def new(
    seq: int, parent: str | None = None, ns: str = "", changed: Any = None, **values: Any
) -> NewCheckpoint:
    """A checkpoint as the engine commits it."""
    made = checkpoint(seq, **values)
    names = frozenset(values) if changed is None else frozenset(changed)
    return NewCheckpoint(ns, made, {"source": "loop", "step": seq}, parent, seq, names)


def first(thread_id: str, epoch: int = 1, **values: Any) -> Batch:
    """A run's first batch: takes the lease and stores a checkpoint."""
    return Batch(thread_id, epoch, claim=True, checkpoint=new(1, **values))


def record(checkpoint_id: str, task_id: str = "task", ns: str = "", **writes: Any) -> Record:
    return Record(ns, checkpoint_id, task_id, list(writes.items()))


class _Holding:
    """What code of a run reaches that holds a thread."""

    def __init__(self, thread_id: str) -> None:
        self.thread_id = thread_id

    def holds(self, thread_id: str) -> bool:
        return thread_id == self.thread_id


@contextmanager
def holding(thread_id: str) -> Iterator[None]:
    """As in code of a run that holds the thread."""
    token = scope_var.set(cast(Scope, _Holding(thread_id)))
    try:
        yield
    finally:
        scope_var.reset(token)
