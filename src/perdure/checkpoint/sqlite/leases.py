"""Leases on threads: taken and freed with a run's own batches, kept alive by one beat."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from perdure.checkpoint import statements as sql
from perdure.checkpoint.port import Batch, ThreadChanged
from perdure.checkpoint.records import needs_lease
from perdure.checkpoint.sqlite.database import Cursor
from perdure.checkpoint.sqlite.owners import Owner, is_gone, this_process, ticks
from perdure.checkpoint.sqlite.tables import ThreadRow
from perdure.errors import LeaseLostError, PerdureError, ThreadBusyError

__all__ = ["Abandoned", "Leases"]

logger = logging.getLogger(__name__)


class Abandoned(ThreadChanged):
    """The owner of the thread is gone, or has not beaten for too long.

    The thread is freed first, and whoever wants it loads it again: until then the old owner may
    still have written something.
    """


class Leases:
    """What one saver holds.

    Args:
        writing: Opens a transaction.
        ttl: Seconds without a beat after which others may take its threads.
    """

    def __init__(self, writing: Callable[[], AbstractContextManager[Cursor]], ttl: float) -> None:
        self._writing = writing
        self._ttl = ttl
        self._key: int | None = None
        self._held: set[tuple[str, int]] = set()
        self._forsaken: set[tuple[str, int]] = set()
        self._changed = threading.Condition(threading.Lock())
        self._beating: threading.Thread | None = None

    @property
    def key(self) -> int | None:
        """What this saver is called in the table of owners, once it has held something."""
        return self._key

    # -- within a transaction

    def check(self, cursor: Cursor, batch: Batch, thread: ThreadRow) -> ThreadRow:
        """The thread's row as the batch leaves it, as far as the lease goes; writes nothing of
        the thread. Raises what refuses the batch."""
        if not needs_lease(batch):
            return thread
        if batch.claim:
            thread = self._claimed(cursor, batch, thread)
        elif thread.epoch != batch.epoch or thread.owner is None or thread.owner != self._key:
            self.note(batch, lost=True)
            raise LeaseLostError(batch.thread_id)
        # Freeing counts as a change too: who loaded the thread while it was held must load it again.
        return thread._replace(owner=None, epoch=thread.epoch + 1) if batch.release else thread

    def _claimed(self, cursor: Cursor, batch: Batch, thread: ThreadRow) -> ThreadRow:
        holder = self.holder(cursor, batch.thread_id, thread)
        if holder is not None:
            raise ThreadBusyError(batch.thread_id, holder)
        if thread.owner is not None:
            raise Abandoned
        if thread.epoch + 1 != batch.epoch:
            raise ThreadChanged
        return thread._replace(epoch=thread.epoch + 1, owner=self._own_key(cursor))

    def holder(self, cursor: Cursor, thread_id: str, thread: ThreadRow) -> str | None:
        """What messages call the living run that holds the thread; None where there is none."""
        if thread.owner is None or (thread_id, thread.epoch) in self._forsaken:
            return None
        row = cursor.execute(sql.READ_OWNER, (thread.owner,)).fetchone()
        if row is None:
            return None
        owner = Owner(*row)
        if owner.key == self._key:
            return "another run in this process"
        return None if is_gone(owner, this_process(), ticks(), time.time()) else str(owner)

    def forsake(self, thread_id: str, epoch: int) -> None:
        """Gives a lease up that could not be freed: nothing keeps it alive any more, and who claims
        the thread here finds it abandoned."""
        with self._changed:
            self._held.discard((thread_id, epoch))
            self._forsaken.add((thread_id, epoch))
            self._changed.notify()

    def holds(self, thread: ThreadRow) -> bool:
        """Whether this saver holds the thread."""
        return thread.owner is not None and thread.owner == self._key

    def _own_key(self, cursor: Cursor) -> int:
        here, now, wall = this_process(), ticks(), time.time()
        if self._key is not None:
            if cursor.execute(sql.BEAT, (now, wall, self._key)).rowcount:
                return self._key
            # Taken for dead, and cleared away.
            self._key = None
        idle = [Owner(*row) for row in cursor.execute(sql.IDLE_OWNERS).fetchall()]
        gone = [(owner.key,) for owner in idle if is_gone(owner, here, now, wall)]
        cursor.executemany(sql.REMOVE_OWNER, gone)
        cursor.execute(sql.ADD_OWNER, (*here, self._ttl, now, wall))
        key = cursor.lastrowid
        assert key is not None
        self._key = key
        return key

    # -- after it

    def note(self, batch: Batch, *, lost: bool = False) -> None:
        """Keeps account of what a stored batch took and freed, or a refused one had lost."""
        if batch.epoch is None or not (batch.claim or batch.release or lost):
            return
        with self._changed:
            if batch.claim and not batch.release and not lost:
                self._held.add((batch.thread_id, batch.epoch))
                if self._beating is None:
                    self._beating = threading.Thread(target=self._beat, name="perdure-beat", daemon=True)
                    self._beating.start()
            else:
                self._held.discard((batch.thread_id, batch.epoch))
                self._changed.notify()

    def _beat(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._held, self._ttl / 3)
                if not self._held:
                    self._beating = None
                    return
            try:
                with self._writing() as cursor:
                    cursor.execute(sql.BEAT, (ticks(), time.time(), self._key))
            except PerdureError as error:
                logger.warning("a lease could not be kept alive: %s", error)

    def free_all(self) -> None:
        """Frees what is held, and signs off."""
        with self._changed:
            self._held.clear()
            self._changed.notify()
            beating = self._beating
        if beating is not None:
            beating.join()
        if self._key is not None:
            with self._writing() as cursor:
                cursor.execute(sql.FREE_THREADS, (self._key,))
                cursor.execute(sql.REMOVE_OWNER, (self._key,))
            self._key = None
