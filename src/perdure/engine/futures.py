"""The future that a sync caller of a task gets."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any

from perdure.engine.frame import Job
from perdure.engine.tasks import Finished, Task
from perdure.engine.workers import Once, Slot, Workers, threads
from perdure.errors import CancelSignal, GraphBubbleUp

_DEEPEST = 40
"""Calls that may run inside each other on one thread's stack."""


class TaskWork(Once):
    """A node's task to be carried out on a thread; `tell` learns how it ended."""

    __slots__ = ("carry", "context", "task", "tell")

    def __init__(
        self, task: Task, carry: Callable[[Task, Slot], Finished], tell: Callable[[Finished], None]
    ) -> None:
        super().__init__()
        self.task = task
        self.carry = carry
        self.tell = tell
        self.context = contextvars.copy_context()

    def run(self, slot: Slot) -> None:
        """Carries the task out, with a slot that the claimer has taken for it."""
        self.tell(self.context.run(self.carry, self.task, slot))


class CallWork(Once):
    """A call to be carried out on a thread, in a copy of its caller's context."""

    __slots__ = ("carry", "context", "job")

    def __init__(self, job: Job, carry: Callable[[Job], None]) -> None:
        super().__init__()
        self.job = job
        self.carry = carry
        self.context = contextvars.copy_context()

    @property
    def waits(self) -> bool:
        """It may still be claimed."""
        future = self.job.future
        return bool(self.token) and not (isinstance(future, Future) and future.cancelled())

    def claim(self) -> bool:
        """True for the first who asks, unless the future was cancelled before."""
        future = self.job.future
        if not super().claim():
            return False
        return not isinstance(future, Future) or future.set_running_or_notify_cancel()

    def run(self, slot: Slot) -> None:
        """Carries the call out, with a slot that the claimer has taken for it."""
        self.job.frame.slot = slot
        self.context.run(self.carry, self.job)
        del self.carry, self.context  # They refer back to the future, which refers to its work.


class CallFuture(Future[Any]):
    """The result of a call that runs, or may run, on a thread.

    `result()` runs the call in the caller's own thread when nobody has begun it.
    """

    def __init__(self, job: Job, work: CallWork | None = None, workers: Workers | None = None) -> None:
        super().__init__()
        self.job = job
        self.heard = False
        self._untold: list[threading.Event] = []
        self._work = work
        self._workers = workers

    def result(self, timeout: float | None = None) -> Any:
        """The call's result; see concurrent.futures.Future.result."""
        self.heard = True
        if timeout is None:
            self.help()
        try:
            return super().result(timeout)
        except GraphBubbleUp as signal:
            self.job.branch.close(signal)
            raise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The call's exception or None; see concurrent.futures.Future.exception."""
        self.heard = True
        if timeout is None:
            self.help()
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """Calls `fn` with the future when it is done; see concurrent.futures.Future.

        A pause that `fn` meets by asking for the result is not its business: it is let go.
        """

        told = threading.Event()
        self._untold.append(told)

        def call(future: Future[Any]) -> None:
            try:
                with contextlib.suppress(GraphBubbleUp):
                    fn(future)
            finally:
                told.set()

        super().add_done_callback(call)

    def _invoke_callbacks(self) -> None:
        # Whoever commits has other calls to tell of, too, and a callback may wait for one of those.
        run = self.job.frame.run
        if self._untold and run.journal.waits and run.saver is not None and run.saver.blocking:
            threads.start(super()._invoke_callbacks)  # type: ignore[misc]  # typeshed has it not
        else:
            super()._invoke_callbacks()  # type: ignore[misc]

    def settled(self) -> None:
        """Waits until the call has ended and its callbacks have run, without asking how."""
        with contextlib.suppress(CancelledError):
            super().exception()
        for told in self._untold:
            told.wait()

    def help(self) -> None:
        """Runs the call here if nobody has begun it."""
        work, workers = self._work, self._workers
        if work is None or workers is None or not work.waits:
            return
        try:
            slot = workers.steal(work)
            if slot is not None:
                if self.job.frame.depth % _DEEPEST:
                    work.run(slot)
                else:
                    threads.start(partial(work.run, slot))
        except BaseException as error:
            # Only a signal handler of the program can raise here: nobody else will resolve the call.
            if work.claimer == threading.get_ident() and not self.done():
                self.set_exception(CancelSignal(repr(error)))
            raise
