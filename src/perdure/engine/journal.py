"""What is still to be stored, and when: three answers to one question.

`sync`: everything is handed over at once, and what depends on it waits until it is on disk.
`async`: handed over at once, in order, and waited for before the run returns. `exit`: kept in
memory until the run leaves, by whatever door but a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure.checkpoint.port import Batch, NewCheckpoint, Record
from perdure.engine.effects import Commit, Steps, Store
from perdure.slotted import replace

if TYPE_CHECKING:
    from perdure.engine.hold import Hold


class Journal:
    """Stores as the run goes; `sync`.

    A run nested in another does not release the thread: `root` says which it is. What a nested
    run must tell about itself beside its first batch is put into `first`.
    """

    waits = True
    """Whoever depends on a record waits until it is durable."""
    durable = True
    checks = False
    """Values are looked at when they are handed over, since they are encoded much later."""

    def __init__(self, hold: Hold, *, root: bool) -> None:
        self.hold = hold
        self.root = root
        self.first: list[Record] = []

    def batch(
        self, records: Sequence[Record], checkpoint: NewCheckpoint | None = None, *, last: bool = False
    ) -> Batch:
        """A batch under the run's lease; the last one of a root run frees it."""
        if self.first:
            records, self.first = [*self.first, *records], []
        release = last and self.root and self.hold.held
        return Batch(
            self.hold.thread_id,
            self.hold.epoch,
            release=release,
            records=records,
            checkpoint=checkpoint,
            durable=self.durable or release,
        )

    def commit(self, batch: Batch) -> Steps[None]:
        """Stores a batch and waits for it. The thread is free only once that has succeeded."""
        yield from Commit(batch)
        if batch.release:
            self.hold.held = False

    def call(self, record: Record) -> Batch | None:
        """What is to be stored now because a call ended."""
        return self.batch([record])

    def task(self, record: Record) -> Steps[None]:
        """A task ended while others of its superstep still run."""
        yield from Store(self.batch([record]))

    def ahead(self, record: Record) -> Steps[None]:
        """What is to be on disk before the superstep goes on."""
        yield from Commit(self.batch([record]))

    def step(self, records: Sequence[Record], checkpoint: NewCheckpoint, *, last: bool) -> Steps[None]:
        """A superstep ended: its last records and the new checkpoint, together."""
        yield from self.commit(self.batch(records, checkpoint, last=last))

    def leave(self, records: Sequence[Record], *, clean: bool = True) -> Steps[None]:
        """The run ends, with these records: nothing may be under way any more afterwards.

        Args:
            clean: It has come to an end of its own, finished, paused or failed.
        """
        if records or self.first or (self.root and self.hold.held):
            yield from self.commit(self.batch(records, last=True))


class BackgroundJournal(Journal):
    """Stores behind the run's back, in order; `async`."""

    waits = False
    durable = False

    def ahead(self, record: Record) -> Steps[None]:
        yield from self.task(record)

    def step(self, records: Sequence[Record], checkpoint: NewCheckpoint, *, last: bool) -> Steps[None]:
        if last:
            yield from self.commit(self.batch(records, checkpoint, last=True))
        else:
            yield from Store(self.batch(records, checkpoint))

    def leave(self, records: Sequence[Record], *, clean: bool = True) -> Steps[None]:
        if self.root and not self.hold.held and not records:
            return  # Left already, with the last superstep.
        # Even an empty batch is waited for: batches become durable in order.
        batch = self.batch(records, last=True)
        batch.durable = True
        yield from self.commit(batch)


class ExitJournal(Journal):
    """Keeps everything until the run leaves; `exit`.

    Of the checkpoints only the last is stored, with the one the run began from as its parent,
    and of the records those that still belong to it.
    """

    waits = False
    checks = True

    def __init__(self, hold: Hold, *, root: bool, keep: bool) -> None:
        super().__init__(hold, root=root)
        self.keep = keep
        """The state outlives a run that finished: root runs, and children that keep their own."""
        self.records: list[Record] = []
        self.checkpoint: NewCheckpoint | None = None

    def call(self, record: Record) -> Batch | None:
        self.records.append(record)
        return None

    def task(self, record: Record) -> Steps[None]:
        self.records.append(record)
        return
        yield

    def ahead(self, record: Record) -> Steps[None]:
        yield from self.task(record)

    def step(self, records: Sequence[Record], checkpoint: NewCheckpoint, *, last: bool) -> Steps[None]:
        kept = self.records, self.checkpoint
        if self.checkpoint is not None:
            changed = checkpoint.changed | self.checkpoint.changed
            checkpoint = replace(checkpoint, parent_id=self.checkpoint.parent_id, changed=changed)
        self.records, self.checkpoint = [], checkpoint
        if last and self.keep:
            try:
                yield from self._flush()
            except BaseException:
                # What cannot be stored is given up; what was there before it is not.
                self.records, self.checkpoint = kept
                raise

    def leave(self, records: Sequence[Record], *, clean: bool = True) -> Steps[None]:
        self.records.extend(records)
        if self.keep or self.records or not clean:
            yield from self._flush()
        elif self.root and self.hold.held:
            yield from self.commit(self.batch([], last=True))

    def _flush(self) -> Steps[None]:
        if self.records or self.checkpoint is not None or (self.root and self.hold.held):
            yield from self.commit(self.batch(list(self.records), self.checkpoint, last=True))
            self.records, self.checkpoint = [], None


class NoJournal(Journal):
    """Stores nothing: there is no saver."""

    waits = False

    def __init__(self) -> None:
        self.root = True
        self.first = []

    def call(self, record: Record) -> Batch | None:
        return None

    def task(self, record: Record) -> Steps[None]:
        return
        yield

    def step(self, records: Sequence[Record], checkpoint: NewCheckpoint, *, last: bool) -> Steps[None]:
        return
        yield

    def leave(self, records: Sequence[Record], *, clean: bool = True) -> Steps[None]:
        return
        yield


def journal_for(durability: str, hold: Hold, *, root: bool, keep: bool) -> Journal:
    """The journal of a run."""
    if durability == "exit":
        return ExitJournal(hold, root=root, keep=keep)
    return (BackgroundJournal if durability == "async" else Journal)(hold, root=root)
