"""Threads in a SQLite file: one saver for sync and async, for threads, loops and processes."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from typing_extensions import override

from perdure.checkpoint import statements as sql
from perdure.checkpoint.committer import Committer, Job
from perdure.checkpoint.own import Browse, OwnSaver, Stored, Wanted, everything
from perdure.checkpoint.port import Batch, Loaded, ThreadChanged, Ticket
from perdure.checkpoint.records import Encoded, KnownCheckpoints, encode, needs_lease, stood_on
from perdure.checkpoint.retention import AFTER_THE_RUN, for_each_free, run_ids_in, thread_ids_of
from perdure.checkpoint.rows import Form
from perdure.checkpoint.shelf import Contents, Shelf
from perdure.checkpoint.sqlite import maintenance
from perdure.checkpoint.sqlite.browsing import pages
from perdure.checkpoint.sqlite.database import Cursor, Database
from perdure.checkpoint.sqlite.leases import Abandoned, Leases
from perdure.checkpoint.sqlite.opened import Opened
from perdure.checkpoint.sqlite.rowids import RowIds, ids_within
from perdure.checkpoint.sqlite.tables import (
    Keys,
    ThreadRow,
    advance,
    fetch_values,
    read_checkpoint,
    read_records,
    read_thread,
    write_rows,
    write_thread,
)
from perdure.context import holds_thread
from perdure.errors import PerdureError, SaverClosedError, ThreadBusyError

__all__ = ["SqliteSaver"]


_MANY_THREADS = 1024


class _Work:
    """A batch, and its rows as they were made when it was submitted."""

    __slots__ = ("batch", "encoded")

    def __init__(self, batch: Batch, encoded: Encoded) -> None:
        self.batch = batch
        self.encoded = encoded


class SqliteSaver(OwnSaver):
    """Keeps threads in a SQLite file.

    May be used from any thread, event loop or process; async methods never block their loop.
    Tables are made on first use. A file that several processes use must lie on a local disk.

    Args:
        conn: Path of the file, `:memory:`, or an open connection, which is then used for
            everything and not closed. It must have been opened with `check_same_thread=False`
            where other threads use the saver; what was left uncommitted on it is committed.
        serde: See `BaseCheckpointSaver`.
        synchronous: `FULL` keeps what was stored through a loss of power; `NORMAL` is faster and
            keeps it through a crash of the process only.
        busy_timeout: Seconds to wait while another process writes.
        lease_ttl: Seconds after which other processes may take the threads of this one when it
            gives no sign of life. (A process that has ended on this host is seen at once.)
    """

    blocking: ClassVar[bool] = True

    def __init__(
        self,
        conn: sqlite3.Connection | str | os.PathLike[str],
        *,
        serde: Any = None,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        busy_timeout: float = 60.0,
        lease_ttl: float = 30.0,
    ) -> None:
        super().__init__(serde=serde)
        if synchronous not in ("FULL", "NORMAL"):
            raise ValueError(f"synchronous is {synchronous!r}; give 'FULL' or 'NORMAL'")
        if not isinstance(conn, str | os.PathLike | sqlite3.Connection):
            raise TypeError(
                f"conn is a {type(conn).__module__}.{type(conn).__qualname__}; give the path of a file "
                "or a connection of the sqlite3 module"
            )
        source = conn if isinstance(conn, sqlite3.Connection) else os.fspath(conn)
        self._lease_ttl = lease_ttl
        self._start(Database(source, synchronous=synchronous, busy_timeout=busy_timeout))

    def _start(self, database: Database) -> None:
        self._database = database
        self._rows = RowIds(database)
        self._leases = Leases(database.writing, self._lease_ttl)
        self._known = KnownCheckpoints()
        self._keys: dict[str, Keys] = {}
        """Names of threads in the database; touched within transactions only."""
        # Encoding may run a user's own code, which may use the saver.
        self._encoding = threading.RLock()
        self._committer: Committer[_Work] = Committer(self._commit, name="perdure-sqlite")

    def _here(self) -> None:
        """Everything that locks is made anew in a forked child."""
        if self._database.forked:
            self._start(self._database.reopened())

    # -- for the engine

    def submit(self, batch: Batch, on_done: Callable[[BaseException | None], None] | None = None) -> Ticket:
        """See `port.NativeSaver`."""
        self._here()
        self._database.check_open()
        with self._encoding:
            for ns, checkpoint_id in stood_on(batch):
                self._remember(batch.thread_id, ns, checkpoint_id)
            encoded = encode(batch, self._wire, self._known, self._rows.take)
            job = self._committer.submit(batch.thread_id, _Work(batch, encoded), on_done)
        if not batch.durable:
            self._committer.throttle(job)
        return job

    def flush(self) -> None:
        """See `port.NativeSaver`."""
        self._committer.flush()

    def wake(self) -> None:
        """See `port.NativeSaver`."""
        self._committer.wake()

    def forsake(self, thread_id: str, epoch: int) -> None:
        """See `port.NativeSaver`."""
        self._leases.forsake(thread_id, epoch)

    def load(self, thread_id: str, ns: str, checkpoint_id: str | None = None) -> Loaded:
        """See `port.NativeSaver`."""
        self._settle(thread_id)
        self._rows.prepare()
        with self._database.reading() as cursor:
            thread = read_thread(cursor, thread_id)
            stored = self._find_in(cursor, thread_id, ns, checkpoint_id)
            if stored is not None:
                self._learn(stored, thread)
        return self._loaded(stored, thread.epoch, thread.counter, thread.newest)

    # -- what is known of checkpoints

    @override
    def _remember(self, thread_id: str, ns: str, checkpoint_id: str | None) -> None:
        self._here()
        if checkpoint_id is None or self._known.get(thread_id, ns, checkpoint_id) is not None:
            return
        with self._database.reading() as cursor:
            stored = self._find_in(cursor, thread_id, ns, checkpoint_id)
            if stored is not None:
                self._learn(stored, read_thread(cursor, thread_id))

    def _learn(self, stored: Stored, thread: ThreadRow) -> None:
        known = self._known.get(stored.thread_id, stored.ns, stored.row.id)
        if known is None or known.lineage.purge not in (None, thread.purge):
            known = self._traced(stored)
            known.lineage.purge = thread.purge
            self._known.put(stored.thread_id, stored.ns, stored.row.id, known)

    # -- committing

    def _commit(self, jobs: Sequence[Job[_Work]]) -> None:
        try:
            with self._database.writing() as cursor:
                accepted = [job for job in jobs if self._store(cursor, job)]
                spare = self._rows.reserve_spare(cursor)
        except BaseException:
            self._keys.clear()
            for job in jobs:
                _disown(job)
            raise
        if len(self._keys) > _MANY_THREADS:
            self._keys.clear()
        self._rows.keep(spare)
        for job in accepted:
            self._leases.note(job.work.batch)

    def _store(self, cursor: Cursor, job: Job[_Work]) -> bool:
        """Stores one batch, or refuses it before anything is written."""
        batch, encoded = job.work.batch, job.work.encoded
        if self._store_next(cursor, batch, encoded):
            return True
        before = read_thread(cursor, batch.thread_id)
        try:
            if batch.claim:
                self._database.check_file()
            thread = self._leases.check(cursor, batch, before)
            encoded = self._valid(cursor, job.work, before)
        except (PerdureError, ThreadChanged, TypeError, ValueError) as error:
            if isinstance(error, Abandoned):
                write_thread(cursor, batch.thread_id, before._replace(owner=None, epoch=before.epoch + 1))
            _disown(job)
            job.error = error
            return False
        if batch.epoch is not None and not needs_lease(batch):
            return True
        row = encoded.checkpoint
        if row is not None:
            if row.seq <= thread.counter:
                # Put by hand, or overtaken by something that was.
                row = encoded.checkpoint = row._replace(seq=thread.counter + 1)
            newest = row.id if thread.newest is None else max(thread.newest, row.id)
            thread = thread._replace(counter=max(thread.counter, row.seq), newest=newest)
        changed = thread.key is None or thread != before
        key = write_thread(cursor, batch.thread_id, thread) if changed else thread.key
        assert key is not None
        keys = self._keys.get(batch.thread_id)
        if keys is None or keys.thread != key or keys.purge != thread.purge:
            keys = self._keys[batch.thread_id] = Keys(key, thread.purge)
        replaced = write_rows(cursor, keys, encoded, _ns(batch))
        if replaced:
            maintenance.sweep(cursor, batch.thread_id, replaced)
            self._known.forget_thread(batch.thread_id)
        for lineage in encoded.lineages:
            if lineage.purge is None:
                lineage.purge = thread.purge
        self._known.adopt(batch, encoded)
        return True

    def _store_next(self, cursor: Cursor, batch: Batch, encoded: Encoded) -> bool:
        """Stores a batch that goes on where its run was, which most do; False for others."""
        keys = self._keys.get(batch.thread_id)
        if keys is None or batch.epoch is None or batch.claim or batch.release:
            return False
        if any(lineage.stale or lineage.purge != keys.purge for lineage in encoded.lineages):
            return False
        if not advance(cursor, keys, batch, self._leases.key, encoded.checkpoint):
            return False
        write_rows(cursor, keys, encoded, _ns(batch))
        return True

    def _valid(self, cursor: Cursor, work: _Work, thread: ThreadRow) -> Encoded:
        """The batch's rows; made again when some that they refer to are not there any more."""
        lineages = work.encoded.lineages
        if all(not each.stale and each.purge in (None, thread.purge) for each in lineages):
            return work.encoded
        batch = work.batch
        known = KnownCheckpoints()
        for ns, checkpoint_id in stood_on(batch):
            stored = self._find_in(cursor, batch.thread_id, ns, checkpoint_id)
            if stored is not None:
                traced = self._traced(stored)
                traced.lineage.purge = thread.purge
                known.put(batch.thread_id, ns, checkpoint_id, traced)
        encoded = encode(batch, self._wire, known, ids_within(cursor))
        if batch.checkpoint is not None:
            ns, id = batch.checkpoint.ns, batch.checkpoint.checkpoint["id"]
            fresh = known.get(batch.thread_id, ns, id)
            if fresh is not None:
                self._known.put(batch.thread_id, ns, id, fresh)
        return encoded

    # -- reading

    def _settle(self, thread_id: str | None) -> None:
        """What was handed over before a read is seen by it."""
        self._here()
        self._committer.settle_all(thread_id)

    @override
    def _find(
        self, thread_id: str, ns: str, checkpoint_id: str | None, wanted: Wanted = everything
    ) -> Stored | None:
        self._settle(thread_id)
        with self._database.reading() as cursor:
            return self._find_in(cursor, thread_id, ns, checkpoint_id, wanted)

    def _find_in(
        self,
        cursor: Cursor,
        thread_id: str,
        ns: str,
        checkpoint_id: str | None,
        wanted: Wanted = everything,
    ) -> Stored | None:
        line = cursor.execute(sql.FIND_LINE, (thread_id, ns)).fetchone()
        if line is None:
            return None
        row = read_checkpoint(cursor, line[0], checkpoint_id)
        if row is None:
            return None
        records = read_records(cursor, line[0], row.id)
        shelf = self._shelf(cursor, wanted(row, records))
        return Stored(thread_id, ns, row, records, shelf)

    def _shelf(self, cursor: Cursor, forms: Iterable[Form]) -> Shelf:
        contents: Contents = {}
        Shelf(self._wire, contents, fetch_values(cursor)).gather(forms)
        return Shelf(self._wire, contents)

    @override
    def _browse(self, asked: Browse) -> Iterator[Stored]:
        self._settle(asked.thread_id)
        return pages(self._database.reading, asked, self._wire)

    # -- maintenance

    @override
    def delete_thread(self, thread_id: str) -> None:
        self._maintain([str(thread_id)], self._delete)

    def _delete(self, cursor: Cursor, thread_id: str) -> None:
        thread = read_thread(cursor, thread_id)
        self._check_free(cursor, thread_id, thread)
        maintenance.remove(cursor, thread_id, thread, keep=self._leases.holds(thread))

    def _check_free(self, cursor: Cursor, thread_id: str, thread: ThreadRow) -> None:
        """Raises ThreadBusyError while a run other than the caller's holds the thread."""
        if self._leases.holds(thread) and holds_thread(thread_id):
            return
        holder = self._leases.holder(cursor, thread_id, thread)
        if holder is not None:
            raise ThreadBusyError(thread_id, holder, AFTER_THE_RUN)

    @override
    def prune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: Literal["keep_latest", "delete"] = "keep_latest",
    ) -> None:
        names = thread_ids_of(thread_ids, strategy)
        if strategy == "delete":
            self._maintain(names, self._delete)
        else:
            self._maintain(names, lambda cursor, name: maintenance.prune(cursor, name, self._wire))

    @override
    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        wanted = run_ids_in(run_ids)
        self._settle(None)
        with self._database.reading() as cursor:
            threads = [thread_id for (thread_id,) in cursor.execute(sql.ALL_THREADS)]
        for_each_free(threads, lambda thread_id: self._delete_runs(thread_id, wanted))

    def _delete_runs(self, thread_id: str, run_ids: frozenset[str]) -> None:
        with self._database.writing() as cursor:
            found = maintenance.remove_runs(cursor, thread_id, run_ids, self._wire, self._check_free)
        if found:
            self._known.forget_thread(thread_id)

    @override
    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        source, target = str(source_thread_id), str(target_thread_id)
        if source == target:
            return
        self._settle(source)

        def copy(cursor: Cursor, target: str) -> None:
            if read_thread(cursor, source).key is not None:
                self._delete(cursor, target)
                maintenance.copy(cursor, source, target, ids_within(cursor))

        self._maintain([target], copy)

    def _maintain(self, thread_ids: Collection[str], change: Callable[[Cursor, str], None]) -> None:
        def maintain(thread_id: str) -> None:
            self._settle(thread_id)
            with self._database.writing() as cursor:
                change(cursor, thread_id)
            self._known.forget_thread(thread_id)

        for_each_free(thread_ids, maintain)

    # -- life

    def setup(self) -> None:
        """Makes the tables. Nothing needs it: they are made on first use."""
        self._here()
        with self._database.reading():
            pass

    @override
    def close(self) -> None:
        """Stores what is queued, frees the threads that are held, closes what was opened here."""
        if self._database.forked:
            return
        try:
            self._committer.stop()
            self._leases.free_all()
        except SaverClosedError:
            pass  # the user's own connection went first
        finally:
            self._database.close()

    @classmethod
    def from_conn_string(cls, conn_string: str | Path, **options: Any) -> Opened[Self]:
        """A context manager, sync and async, that opens a saver and closes it at the end.

        Args:
            conn_string: Path of the file, or `:memory:`.
            options: As for the class.
        """
        return Opened(lambda: cls(conn_string, **options))


def _ns(batch: Batch) -> str:
    return "" if batch.checkpoint is None else batch.checkpoint.ns


def _disown(job: Job[_Work]) -> None:
    """Batches that refer to rows of one that was not stored must not trust them."""
    for lineage in job.work.encoded.lineages:
        lineage.stale = True
