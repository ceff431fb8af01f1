"""Threads in memory: for tests, for work that may be lost with its process, and as the twin that
every other saver must agree with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, ClassVar, Literal

from typing_extensions import override

from perdure.checkpoint.own import Browse, OwnSaver, Stored, Wanted, everything, wanted_metadata
from perdure.checkpoint.port import Batch, Loaded, ThreadChanged, Ticket
from perdure.checkpoint.records import (
    Encoded,
    KnownCheckpoints,
    encode,
    forms_of,
    metadata_of,
    needs_lease,
    stood_on,
)
from perdure.checkpoint.retention import (
    AFTER_THE_RUN,
    for_each_free,
    kept_of,
    run_ids_in,
    thread_ids_of,
)
from perdure.checkpoint.rows import CheckpointRow, RecordRow
from perdure.checkpoint.shelf import Shelf, referred
from perdure.context import holds_thread
from perdure.errors import LeaseLostError, ThreadBusyError
from perdure.slotted import field, slotted

__all__ = ["InMemorySaver", "MemorySaver"]


@slotted
class _Line:
    """The checkpoints of one namespace."""

    checkpoints: dict[str, CheckpointRow] = field(default_factory=dict)
    records: dict[str, list[RecordRow]] = field(default_factory=dict)
    head: CheckpointRow | None = None

    def add(self, row: CheckpointRow) -> None:
        self.checkpoints[row.id] = row
        if self.head is None or row.seq >= self.head.seq:
            self.head = row

    def keep(self, ids: set[str]) -> None:
        """Removes all checkpoints but these, and their records."""
        self.checkpoints = {id: row for id, row in self.checkpoints.items() if id in ids}
        self.records = {id: rows for id, rows in self.records.items() if id in ids}
        self.head = max(self.checkpoints.values(), key=lambda row: row.seq, default=None)


@slotted
class _Thread:
    epoch: int = 0
    held: bool = False
    counter: int = 0
    newest: str | None = None
    lines: dict[str, _Line] = field(default_factory=dict)
    rows: dict[int, tuple[int, bytes]] = field(default_factory=dict)

    def line(self, ns: str) -> _Line:
        found = self.lines.get(ns)
        if found is None:
            found = self.lines[ns] = _Line()
        return found

    def sweep(self) -> None:
        """Drops the rows that nothing refers to any more."""
        forms = [
            form
            for line in self.lines.values()
            for row in line.checkpoints.values()
            for form in forms_of(row.body, line.records.get(row.id, ()))
        ]
        rows = self.rows
        self.rows = dict(referred(forms, lambda ids: [(id, *rows[id]) for id in ids]))


@slotted
class _Store:
    """What savers that stand on the same threads share."""

    threads: dict[str, _Thread] = field(default_factory=dict)
    floor: int = 0
    """Epoch that new threads begin with: no lease on a deleted thread is ever good again."""


class InMemorySaver(OwnSaver):
    """Keeps threads in memory, encoded, so that nobody's later changes reach them.

    May be used from any thread and any event loop. Usable as a context manager, sync or async.
    """

    blocking: ClassVar[bool] = False

    def __init__(self, *, serde: Any = None) -> None:
        super().__init__(serde=serde)
        self._store = _Store()
        self._known = KnownCheckpoints()
        self._take = count(1).__next__
        # Encoding may run a user's own code, which may read the saver.
        self._lock = threading.RLock()

    # -- for the engine

    def submit(self, batch: Batch, on_done: Callable[[BaseException | None], None] | None = None) -> Ticket:
        """Stores the batch at once. See `port.NativeSaver`."""
        error: BaseException | None = None
        with self._lock:
            for ns, checkpoint_id in stood_on(batch):
                self._remember(batch.thread_id, ns, checkpoint_id)
            encoded = encode(batch, self._wire, self._known, self._take)
            try:
                self._apply(batch, encoded)
                self._known.adopt(batch, encoded)
            except (ThreadBusyError, ThreadChanged, LeaseLostError) as refused:
                for lineage in encoded.lineages:
                    lineage.stale = True
                error = refused
        if on_done is not None:
            on_done(error)
        return _Settled(error)

    def flush(self) -> None:
        """Nothing is ever queued."""

    def wake(self) -> None:
        """Nothing is ever queued."""

    def forsake(self, thread_id: str, epoch: int) -> None:
        """See `port.NativeSaver`."""
        with self._lock:
            thread = self._store.threads.get(thread_id)
            if thread is not None and thread.held and thread.epoch == epoch:
                thread.held = False
                thread.epoch += 1

    def load(self, thread_id: str, ns: str, checkpoint_id: str | None = None) -> Loaded:
        """See `port.NativeSaver`."""
        with self._lock:
            thread = self._store.threads.get(thread_id)
            if thread is None:
                return Loaded(None, {}, self._store.floor)
            stored = self._find(thread_id, ns, checkpoint_id)
            if stored is not None:
                self._remember(thread_id, ns, stored.row.id)
            return self._loaded(stored, thread.epoch, thread.counter, thread.newest)

    @override
    def _remember(self, thread_id: str, ns: str, checkpoint_id: str | None) -> None:
        with self._lock:
            if self._known.get(thread_id, ns, checkpoint_id) is not None or checkpoint_id is None:
                return
            stored = self._find(thread_id, ns, checkpoint_id)
            if stored is not None:
                self._known.put(thread_id, ns, checkpoint_id, self._traced(stored))

    def _apply(self, batch: Batch, encoded: Encoded) -> None:
        thread = self._store.threads.get(batch.thread_id)
        if thread is None:
            thread = _Thread(self._store.floor)
        self._check_lease(batch, thread)
        if not needs_lease(batch) and batch.epoch is not None:
            return
        self._store.threads[batch.thread_id] = thread
        for row in encoded.rows:
            thread.rows[row.id] = row.kind, row.data
        for ns, record in encoded.records:
            thread.line(ns).records.setdefault(record.checkpoint_id, []).append(record)
        if encoded.checkpoint is not None and batch.checkpoint is not None:
            self._store_checkpoint(thread, batch.checkpoint.ns, encoded.checkpoint)
        if batch.release:
            # Freeing counts as a change too: who loaded the thread while it was held must load it again.
            thread.held = False
            thread.epoch += 1

    def _store_checkpoint(self, thread: _Thread, ns: str, row: CheckpointRow) -> None:
        line = thread.line(ns)
        before = line.checkpoints.get(row.id)
        if before is not None:
            row = row._replace(seq=before.seq)
        elif row.seq <= thread.counter:
            # Put by hand, or overtaken by something that was.
            row = row._replace(seq=thread.counter + 1)
        thread.counter = max(thread.counter, row.seq)
        thread.newest = row.id if thread.newest is None else max(thread.newest, row.id)
        line.add(row)
        if before is not None:
            thread.sweep()

    def _check_lease(self, batch: Batch, thread: _Thread) -> None:
        if not needs_lease(batch):
            return
        if batch.claim:
            if thread.held:
                raise ThreadBusyError(batch.thread_id)
            if thread.epoch + 1 != batch.epoch:
                raise ThreadChanged
            thread.epoch, thread.held = thread.epoch + 1, True
        elif not thread.held or thread.epoch != batch.epoch:
            raise LeaseLostError(batch.thread_id)

    # -- reading

    @override
    def _find(
        self, thread_id: str, ns: str, checkpoint_id: str | None, wanted: Wanted = everything
    ) -> Stored | None:
        with self._lock:
            thread = self._store.threads.get(thread_id)
            line = None if thread is None else thread.lines.get(ns)
            if thread is None or line is None:
                return None
            row = line.head if checkpoint_id is None else line.checkpoints.get(checkpoint_id)
            return None if row is None else self._stored(thread_id, thread, ns, row)

    def _stored(
        self, thread_id: str, thread: _Thread, ns: str, row: CheckpointRow, shelf: Shelf | None = None
    ) -> Stored:
        records = tuple(thread.lines[ns].records.get(row.id, ()))
        return Stored(thread_id, ns, row, records, shelf or Shelf(self._wire, thread.rows))

    @override
    def _browse(self, asked: Browse) -> Iterator[Stored]:
        with self._lock:
            stored = [
                self._stored(thread_id, thread, ns, row, shelf)
                for thread_id, thread in self._store.threads.items()
                if asked.thread_id in (None, thread_id)
                for shelf in [Shelf(self._wire, thread.rows)]
                for ns, row in _rows_asked(thread, asked)
                if wanted_metadata(asked, row, self._wire)
            ]
        if asked.thread_id is None:
            stored.sort(key=lambda found: found.row.id, reverse=True)
        else:
            stored.sort(key=lambda found: found.row.seq, reverse=True)
        yield from stored

    # -- maintenance

    @override
    def delete_thread(self, thread_id: str) -> None:
        with self._lock:
            self._delete(str(thread_id))

    def _check_free(self, thread_id: str, thread: _Thread) -> None:
        """Raises ThreadBusyError while a run other than the caller's holds the thread."""
        if thread.held and not holds_thread(thread_id):
            raise ThreadBusyError(thread_id, "a run", AFTER_THE_RUN)

    def _delete(self, thread_id: str) -> None:
        thread = self._store.threads.get(thread_id)
        if thread is None:
            return
        self._check_free(thread_id, thread)
        del self._store.threads[thread_id]
        self._known.forget_thread(thread_id)
        if thread.held:
            # A run that deletes its own thread goes on with it.
            self._store.threads[thread_id] = _Thread(thread.epoch, held=True, counter=thread.counter)
        else:
            self._store.floor = max(self._store.floor, thread.epoch + 1)

    @override
    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        wanted = run_ids_in(run_ids)
        with self._lock:
            for_each_free(list(self._store.threads), lambda name: self._delete_runs(name, wanted))

    def _delete_runs(self, thread_id: str, run_ids: frozenset[str]) -> None:
        thread = self._store.threads[thread_id]
        kept = {
            ns: {
                id
                for id, row in line.checkpoints.items()
                if metadata_of(row, self._wire).get("run_id") not in run_ids
            }
            for ns, line in thread.lines.items()
        }
        if all(len(kept[ns]) == len(line.checkpoints) for ns, line in thread.lines.items()):
            return
        self._check_free(thread_id, thread)
        for ns, line in thread.lines.items():
            line.keep(kept[ns] | (line.records.keys() - line.checkpoints.keys()))
        self._known.forget_thread(thread_id)
        thread.sweep()

    @override
    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        source_id, target_id = str(source_thread_id), str(target_thread_id)
        with self._lock:
            source = self._store.threads.get(source_id)
            if source is None or source_id == target_id:
                return
            self._delete(target_id)
            target = self._store.threads.get(target_id) or _Thread(self._store.floor)
            target.counter, target.newest, target.rows = source.counter, source.newest, dict(source.rows)
            for ns, line in source.lines.items():
                records = {id: list(rows) for id, rows in line.records.items()}
                target.lines[ns] = _Line(dict(line.checkpoints), records, line.head)
            self._store.threads[target_id] = target

    @override
    def prune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: Literal["keep_latest", "delete"] = "keep_latest",
    ) -> None:
        names = thread_ids_of(thread_ids, strategy)
        with self._lock:
            for_each_free(names, self._delete if strategy == "delete" else self._keep_latest)

    def _keep_latest(self, thread_id: str) -> None:
        thread = self._store.threads.get(thread_id)
        if thread is None:
            return
        for line in thread.lines.values():
            line.keep(kept_of(line.checkpoints, line.head, self._wire))
        self._known.forget_thread(thread_id)
        thread.sweep()

    # -- life

    @override
    def close(self) -> None:
        """There is nothing to close."""


MemorySaver = InMemorySaver


def _rows_asked(thread: _Thread, asked: Browse) -> Iterator[tuple[str, CheckpointRow]]:
    rows = [
        (ns, row)
        for ns, line in thread.lines.items()
        if asked.ns in (None, ns)
        for row in line.checkpoints.values()
        if asked.checkpoint_id in (None, row.id)
    ]
    if asked.before is None:
        return iter(rows)
    limit = next(
        (
            line.checkpoints[asked.before].seq
            for line in thread.lines.values()
            if asked.before in line.checkpoints
        ),
        None,
    )
    if limit is None:
        return ((ns, row) for ns, row in rows if row.id < (asked.before or ""))
    return ((ns, row) for ns, row in rows if row.seq < limit)


class _Settled:
    """A ticket of a batch that is stored, or has failed, already."""

    __slots__ = ("_error",)

    done = True

    def __init__(self, error: BaseException | None) -> None:
        self._error = error

    def wait(self) -> None:
        if self._error is not None:
            raise self._error
