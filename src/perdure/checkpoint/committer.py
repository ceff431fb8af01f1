"""Group commit: what waits in a queue together goes to the disk together.

Jobs are queued in the order of submission. Then whoever finds the queue first is its leader:
a thread that waits for its job (`settle`), one that has just finished something (`flush`), or
the writer thread (`wake`), which starts when it is first needed and ends when it is idle. The
leader takes all that is queued; others who come meanwhile find their jobs done when the
leader has finished, or lead the next group.

A job that comes while a leader works, from a thread that does not wait for it, must not lie in
the queue until somebody else comes by: every leader looks at the queue again after it has let
go of the lead, and commits what it finds or wakes the writer.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["Committer", "Job"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LIMIT = 256
_IDLE_SECONDS = 1.0
_ROUNDS = 3
"""Groups that a thread which does not wait for them commits before the writer takes over."""


class Job(Generic[T]):
    """Something on its way to the disk; a `port.Ticket`."""

    __slots__ = ("_committer", "done", "error", "key", "on_done", "work")

    def __init__(
        self,
        committer: Committer[T],
        key: str,
        work: T,
        on_done: Callable[[BaseException | None], None] | None,
    ) -> None:
        self._committer = committer
        self.key = key
        self.work = work
        self.on_done = on_done
        self.done = False
        self.error: BaseException | None = None

    def wait(self) -> None:
        """Blocks until the job is done. Raises what committing it raised."""
        self._committer.settle(self)
        if self.error is not None:
            raise self.error


class Committer(Generic[T]):
    """The queue, and the right to commit it.

    Args:
        commit: Stores the work of these jobs in one transaction. Sets `error` of a job that is
            refused by itself; raises when the whole transaction failed, nothing of it stored.
        limit: How many jobs that nobody waits for may lie in the queue.
        idle: Seconds without work after which the writer thread ends.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Job[T]]], None],
        *,
        name: str,
        limit: int = _LIMIT,
        idle: float = _IDLE_SECONDS,
    ) -> None:
        self._commit = commit
        self._name = name
        self._limit = limit
        self._idle = idle
        self._queue: deque[Job[T]] = deque()
        self._latest: dict[str, Job[T]] = {}
        self._latest_lock = threading.Lock()
        self._leader = threading.Lock()
        self._signal = threading.Condition(threading.Lock())
        self._writer: threading.Thread | None = None
        self._wanted = False
        self._stopped = False

    def submit(
        self,
        key: str,
        work: T,
        on_done: Callable[[BaseException | None], None] | None = None,
    ) -> Job[T]:
        """Queues a job. `key` names what it belongs to, for `settle_all`."""
        job = Job(self, key, work, on_done)
        with self._latest_lock:
            self._latest[key] = job
        self._queue.append(job)
        return job

    def throttle(self, job: Job[T]) -> None:
        """Waits for a job that nobody waits for, when too many of them lie in the queue."""
        if len(self._queue) > self._limit:
            self.settle(job)

    def settle(self, job: Job[T]) -> None:
        """Returns when the job is done, committing the queue if nobody else does."""
        while not job.done:
            self._lead(unless=job)
        if self._queue:
            self.wake()

    def settle_all(self, key: str | None = None) -> None:
        """Returns when all jobs of the key, or of every key, that are queued now are done."""
        with self._latest_lock:
            jobs = list(self._latest.values()) if key is None else [self._latest.get(key)]
        for job in jobs:
            if job is not None:
                self.settle(job)

    def flush(self) -> None:
        """Commits the queue, unless another thread is at it, which then takes it along."""
        for _ in range(_ROUNDS):
            if not self._queue or not self._lead(blocking=False):
                return
        if self._queue:
            self.wake()

    def wake(self) -> None:
        """Lets the writer thread commit the queue. Never blocks."""
        with self._signal:
            self._wanted = True
            if self._writer is None and not self._stopped:
                self._writer = threading.Thread(target=self._write, name=self._name, daemon=True)
                self._writer.start()
            else:
                self._signal.notify()

    def stop(self) -> None:
        """Commits what is queued and ends the writer thread."""
        self.settle_all()
        with self._signal:
            self._stopped = True
            writer = self._writer
            self._signal.notify()
        if writer is not None and writer is not threading.current_thread():
            writer.join()

    def _write(self) -> None:
        while True:
            with self._signal:
                self._signal.wait_for(lambda: self._wanted or self._stopped, self._idle)
                if not self._wanted:
                    self._writer = None
                    return
                self._wanted = False
            self._lead()
            while self._queue:
                # Came while this thread had the lead, from one that left it to the leader.
                self._lead()

    def _lead(self, *, blocking: bool = True, unless: Job[T] | None = None) -> bool:
        """Commits the queue, if the lead can be had; not when `unless` was done meanwhile."""
        if not self._leader.acquire(blocking):
            return False
        jobs: list[Job[T]] = []
        try:
            if unless is None or not unless.done:
                self._commit_queue(jobs)
        finally:
            self._leader.release()
            self._tell(jobs)
        return True

    def _commit_queue(self, jobs: list[Job[T]]) -> None:
        while self._queue:
            jobs.append(self._queue.popleft())
        if not jobs:
            return
        try:
            self._commit_group(jobs)
        finally:
            for job in jobs:
                with self._latest_lock:
                    if self._latest.get(job.key) is job:
                        del self._latest[job.key]
                job.done = True

    def _commit_group(self, jobs: list[Job[T]]) -> None:
        try:
            self._commit(jobs)
        except BaseException as error:
            alone = len(jobs) == 1
            for job in jobs:
                job.error = error if alone or not isinstance(error, Exception) else None
            if not isinstance(error, Exception):
                raise
            # One of several may be at fault: each for itself.
            for job in [] if alone else jobs:
                self._commit_group([job])

    def _tell(self, jobs: Sequence[Job[T]]) -> None:
        for job in jobs:
            if job.on_done is not None:
                try:
                    job.on_done(job.error)
                except Exception:
                    logger.exception("a listener failed")
