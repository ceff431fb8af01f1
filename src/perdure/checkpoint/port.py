"""What the engine and perdure's own savers say to each other, as data.

The documented saver port (`checkpoint.base`) moves one checkpoint or one task's writes at a
time. Our own savers understand batches besides: records, a checkpoint and a change of the
thread's lease that become durable together or not at all.

A batch is handed over in two moves. `submit` encodes it in the caller's thread, so that a
value which cannot be stored fails where it was returned, and queues it; order of submission
is order of commit. Then somebody carries the queue to the disk: whoever waits for a ticket
(`Ticket.wait`), a worker that has just finished something (`flush`), or the saver's one
writer thread (`wake`), which is what an event loop asks for, since nothing may block there.
What lies in the queue together is committed together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from perdure.slotted import field, slotted

if TYPE_CHECKING:
    from perdure.checkpoint.base import Checkpoint, CheckpointTuple


@slotted
class CallInfo:
    """What lies beside a call's stored outcome, so that a replay can find and check it."""

    caller: str
    """Task id of the caller."""
    branch: str
    """Id of the caller's branch that made the call; empty for the body itself."""
    seq: int
    """Number of the call among the calls of its branch, from 0."""
    name: str
    digest: str
    """Digest of the arguments."""
    solo: bool
    """No other call of the caller was open when this one was made: order is meant, not timing."""
    started: float
    """Seconds since the epoch."""
    ended: float
    ns: str | None = None
    """For a nested run: its checkpoint namespace."""
    shared: bool = False
    """Another line of the caller, which began as this one did, had made the same call."""


@slotted
class Record:
    """What one task left behind on one checkpoint."""

    ns: str
    checkpoint_id: str
    task_id: str
    writes: Sequence[tuple[str, Any]]
    path: str = ""
    """Text of the task's path; orders pending writes."""
    info: CallInfo | None = None


@slotted
class NewCheckpoint:
    """A checkpoint to store, whole, with what is needed to store only what changed."""

    ns: str
    checkpoint: Checkpoint
    metadata: Mapping[str, Any]
    parent_id: str | None
    seq: int
    """Place in the thread's order over all namespaces: greater is newer."""
    changed: frozenset[str]
    """Channels whose value is not that of the parent."""


@slotted
class Batch:
    """What is to become durable together.

    `claim` takes the thread's lease: the batch fails with ThreadBusyError while a living owner
    holds it, and with ThreadChanged when its epoch is no longer `epoch - 1`, i.e. another run
    came or went since the thread was loaded. A batch without `claim` fails with
    LeaseLostError, and writes nothing, unless this process holds the lease at `epoch`.
    `epoch=None` writes without any lease (the documented methods). `release` frees the lease
    after the rest was written, and moves the epoch on. A claim that finds an owner who is gone
    frees the thread in the same way and fails with ThreadChanged.
    """

    thread_id: str
    epoch: int | None
    claim: bool = False
    release: bool = False
    records: Sequence[Record] = ()
    checkpoint: NewCheckpoint | None = None
    durable: bool = True
    """False: may be grouped at leisure (`durability="async"`)."""


class ThreadChanged(Exception):
    """Another run took and left the thread since it was loaded; load it again. Internal."""


@slotted
class Loaded:
    """A thread as a run finds it."""

    tuple: CheckpointTuple | None
    """The addressed checkpoint, or the newest of the namespace; whole values, in the order of
    task paths."""
    infos: Mapping[str, CallInfo] = field(default_factory=dict)
    """Task id of a stored call -> what lies beside its outcome."""
    epoch: int = 0
    """Epoch of the thread's lease; the next owner's is one more."""
    counter: int = 0
    """Greatest `seq` of the thread over all namespaces, 0 for none."""
    newest_id: str | None = None
    """Greatest checkpoint id of the thread over all namespaces, as text."""


class Ticket(Protocol):
    """A batch on its way to the disk."""

    @property
    def done(self) -> bool: ...

    def wait(self) -> None:
        """Blocks until the batch is durable, committing the queue itself if nobody else does.
        Raises what the commit raised."""
        ...


class NativeSaver(Protocol):
    """What our own savers offer the engine besides the documented methods."""

    blocking: bool
    """False when `load` and commits touch memory only, so that an event loop may call them."""

    def load(self, thread_id: str, ns: str, checkpoint_id: str | None = None) -> Loaded: ...

    def submit(self, batch: Batch, on_done: Callable[[BaseException | None], None] | None = None) -> Ticket:
        """Encodes (raises UnstorableError, TypeError) and queues. `on_done` is called once, by
        the thread that committed, with None or the error. A ticket whose batch failed raises
        from `wait` too."""
        ...

    def flush(self) -> None:
        """Commits what is queued, unless another thread is at it: then that one takes it along."""
        ...

    def wake(self) -> None:
        """Lets the saver's writer thread commit what is queued; never blocks."""
        ...

    def forsake(self, thread_id: str, epoch: int) -> None:
        """Gives a lease up without storing that: its run could not free it. Others in this process
        may claim the thread; those elsewhere once this process is gone or the claim was made."""
        ...

    def check(self, value: Any) -> None:
        """Raises UnstorableError when the value cannot be stored; stores nothing."""
        ...
