"""Any object with the documented saver methods, as the engine sees its savers.

What a batch holds is stored by the documented calls, records before the checkpoint, so that a
crash in between repeats nothing that was finished. Such a saver knows no leases: runs of one
process are kept apart by a table here.
"""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from perdure.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, PendingWrite
from perdure.checkpoint.port import Batch, CallInfo, Loaded, NewCheckpoint, Record, ThreadChanged
from perdure.errors import LeaseLostError, RecordedError, ThreadBusyError
from perdure.slotted import values

CALL = "__call__"
"""Channel under which what lies beside a call's outcome is stored, for want of another place."""

_DOCUMENTED = (
    "get_tuple", "list", "put", "put_writes", "aget_tuple", "alist", "aput", "aput_writes",
    "get_next_version",
)  # fmt: skip


class _Leases:
    """Which threads of a saver are held in this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.epochs: dict[str, int] = {}
        self.held: set[str] = set()

    def change(self, batch: Batch) -> None:
        """Takes the lease, or checks that the batch has it."""
        if batch.epoch is None:
            return
        with self.lock:
            epoch = self.epochs.get(batch.thread_id, 0)
            if not batch.claim:
                if epoch != batch.epoch or batch.thread_id not in self.held:
                    raise LeaseLostError(batch.thread_id)
                return
            if batch.thread_id in self.held:
                raise ThreadBusyError(batch.thread_id, "another run in this process")
            if epoch != batch.epoch - 1:
                raise ThreadChanged
            self.epochs[batch.thread_id] = batch.epoch
            self.held.add(batch.thread_id)

    def free(self, batch: Batch) -> None:
        """Gives the lease back, where the batch says so."""
        if batch.release:
            self._drop(batch.thread_id)

    def unclaim(self, batch: Batch) -> None:
        """Gives the lease back that a batch took which then failed. (A run that is cancelled
        meanwhile frees its thread itself.)"""
        if batch.claim and not batch.release:
            self._drop(batch.thread_id)

    def _drop(self, thread_id: str) -> None:
        with self.lock:
            self.held.discard(thread_id)
            self.epochs[thread_id] = self.epochs.get(thread_id, 0) + 1


class _Done:
    """The ticket of a batch that is stored."""

    done = True

    def wait(self) -> None:
        """Returns at once."""


class ForeignSaver:
    """Lets a saver of another make serve the engine."""

    blocking = True

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.leases = _Leases()
        self.order = threading.Lock()
        self.takes_path = _takes_path(saver.put_writes)
        inherited = getattr(type(saver), "aput_writes", None) is BaseCheckpointSaver.aput_writes
        self.atakes_path = self.takes_path if inherited else _takes_path(getattr(saver, "aput_writes", None))

    def version_after(self, versions: Mapping[str, Any]) -> Any:
        """The next version, as the saver counts them."""
        newest = max(versions.values(), default=None)
        give = getattr(self.saver, "get_next_version", None)
        return give(newest, None) if give is not None else int(newest or 0) + 1

    def load(self, thread_id: str, ns: str, checkpoint_id: str | None = None) -> Loaded:
        """Reads a thread; see NativeSaver."""
        found = self.saver.get_tuple(_config(thread_id, ns, checkpoint_id))
        return self._loaded(thread_id, found)

    async def aload(self, thread_id: str, ns: str, checkpoint_id: str | None = None) -> Loaded:
        """Reads a thread through the saver's coroutines."""
        found = await self.saver.aget_tuple(_config(thread_id, ns, checkpoint_id))
        return self._loaded(thread_id, found)

    def _loaded(self, thread_id: str, found: CheckpointTuple | None) -> Loaded:
        epoch = self.leases.epochs.get(thread_id, 0)
        if found is None:
            return Loaded(None, epoch=epoch)
        writes = list(found.pending_writes or ())
        infos = {task: CallInfo(*value) for task, channel, value in writes if channel == CALL}
        plain = found._replace(pending_writes=[_raisable(write) for write in writes if write[1] != CALL])
        return Loaded(plain, infos, epoch, newest_id=found.checkpoint["id"])

    def submit(self, batch: Batch, on_done: Callable[[BaseException | None], None] | None = None) -> _Done:
        """Stores a batch at once, in the caller's thread."""
        with self.order:
            self.leases.change(batch)
            try:
                for record in batch.records:
                    self.saver.put_writes(*_writes_arguments(batch, record, path=self.takes_path))
                if batch.checkpoint is not None:
                    self.saver.put(*_put_arguments(batch.thread_id, batch.checkpoint))
            except Exception:
                self.leases.unclaim(batch)
                raise
            finally:
                self.leases.free(batch)
        if on_done is not None:
            on_done(None)
        return _Done()

    async def acommit(self, batch: Batch) -> None:
        """Stores a batch through the saver's coroutines."""
        self.leases.change(batch)
        try:
            for record in batch.records:
                await self.saver.aput_writes(*_writes_arguments(batch, record, path=self.atakes_path))
            if batch.checkpoint is not None:
                await self.saver.aput(*_put_arguments(batch.thread_id, batch.checkpoint))
        except Exception:
            self.leases.unclaim(batch)
            raise
        finally:
            self.leases.free(batch)

    def flush(self) -> None:
        """Nothing is ever queued."""

    def wake(self) -> None:
        """Nothing is ever queued."""

    def forsake(self, thread_id: str, epoch: int) -> None:
        """Gives a lease up; see NativeSaver."""
        self.leases.free(Batch(thread_id, epoch, release=True))

    def check(self, value: Any) -> None:
        """Raises what the saver's serializer raises for a value it cannot store."""
        serde = getattr(self.saver, "serde", None)
        if serde is not None:
            serde.dumps_typed(value)


def _raisable(write: PendingWrite) -> PendingWrite:
    """A stored write as it can be replayed: an error that was kept as text becomes one again."""
    task_id, channel, value = write
    if channel == "__error__" and not isinstance(value, BaseException):
        return task_id, channel, RecordedError("an error that the saver kept as text", (value,))
    return write


def _takes_path(method: Any) -> bool:
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return False
    return "task_path" in parameters or any(p.kind is p.VAR_POSITIONAL for p in parameters.values())


def _config(thread_id: str, ns: str, checkpoint_id: str | None) -> dict[str, Any]:
    configurable = {"thread_id": thread_id, "checkpoint_ns": ns}
    if checkpoint_id:
        configurable["checkpoint_id"] = checkpoint_id
    return {"configurable": configurable}


def _writes_arguments(batch: Batch, record: Record, *, path: bool) -> tuple[Any, ...]:
    config = _config(batch.thread_id, record.ns, record.checkpoint_id)
    writes = list(record.writes)
    if record.info is not None:
        writes.append((CALL, list(values(record.info))))
    return (config, writes, record.task_id, *((record.path,) if path else ()))


def _put_arguments(thread_id: str, new: NewCheckpoint) -> tuple[Any, ...]:
    versions = new.checkpoint["channel_versions"]
    changed = {key: versions[key] for key in new.changed if key in versions}
    return _config(thread_id, new.ns, new.parent_id), new.checkpoint, dict(new.metadata), changed


_foreign: weakref.WeakKeyDictionary[Any, ForeignSaver] = weakref.WeakKeyDictionary()


def native_of(saver: Any) -> Any:
    """The saver as the engine uses it: our own as they are, unless a documented method of theirs
    is overridden or patched; any other through its documented methods."""
    ours = next(
        (cls for cls in type(saver).__mro__ if cls.__module__.startswith("perdure.checkpoint.")), None
    )
    if ours is not None and hasattr(ours, "submit") and not _changed(saver, ours):
        return saver
    known = _foreign.get(saver)
    if known is None:
        known = _foreign[saver] = ForeignSaver(saver)
    return known


def _changed(saver: Any, ours: type) -> bool:
    own = getattr(saver, "__dict__", {})
    return any(
        name in own or getattr(type(saver), name, None) is not getattr(ours, name, None)
        for name in _DOCUMENTED
    )
