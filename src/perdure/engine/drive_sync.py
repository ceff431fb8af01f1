"""Carries a run's effects out for a sync caller, on his thread and on workers."""

from __future__ import annotations

import contextvars
import queue
import time
from collections.abc import Callable, Iterator
from typing import Any

from perdure.engine.carry import Carrier
from perdure.engine.effects import Cancel, Commit, Effect, Load, Next, Now, Start, Store, Tell, Wait
from perdure.engine.frame import Job
from perdure.engine.futures import TaskWork
from perdure.engine.live import Run
from perdure.engine.run import run as loop
from perdure.engine.tasks import Cancelled, Finished, Task
from perdure.engine.workers import Workers
from perdure.errors import CancelSignal
from perdure.stream.sink import Event


class SyncDriver(Carrier):
    """Drives one run; `drive()` yields the events that its listeners want."""

    def __init__(self, run: Run, workers: Workers) -> None:
        super().__init__(run, workers)
        run.world = self
        self.sink = run.sink
        self.shared = run.parent is not None and run.parent.run.sink is run.sink
        """The run above hands the events over, with its own."""
        self.live = run.sink.live and not self.shared
        self.ready: list[Task] = []
        self.works: list[TaskWork] = []
        self.running = 0
        self.ended: queue.SimpleQueue[Finished | None] = queue.SimpleQueue()
        self.told = False
        """It is known already that there are events."""
        self.leaving = False

    def drive(self) -> Iterator[Event]:
        """Carries the run out; yields events as they come. Raises what ends the run."""
        steps = loop(self.run)
        sink = self.sink
        answer: Any = None
        error: BaseException | None = None
        try:
            while True:
                effect = steps.send(answer) if error is None else steps.throw(error)
                answer = error = None
                try:
                    while sink.queue and not self.leaving and not self.shared:
                        yield sink.queue.popleft()
                    if self.live and type(effect) is Next and not self.ready:
                        answer = yield from self._next_live(effect)
                    else:
                        answer = _PERFORM[type(effect)](self, effect)
                except BaseException as raised:
                    self.leaving = self.leaving or isinstance(raised, GeneratorExit)
                    error = raised
        except StopIteration:
            yield from self._events()
        except BaseException:
            yield from self._events()
            raise

    def _events(self) -> Iterator[Event]:
        while self.sink.queue and not self.leaving and not self.shared:
            yield self.sink.queue.popleft()

    def _notify(self) -> None:
        if not self.told:
            self.told = True
            self.ended.put(None)

    # effects ----------------------------------------------------------------------------

    def _load(self, effect: Load) -> Any:
        assert self.run.saver is not None
        return self.run.saver.load(effect.thread_id, effect.ns, effect.checkpoint_id)

    def _start(self, effect: Start) -> None:
        tasks = effect.tasks
        alone = len(tasks) == 1 and not self.running
        in_place = not self.live or tasks[0].node.quiet
        if alone and in_place and self.run.options.step_timeout is None:
            self.ready.append(tasks[0])
            return
        self.works = [work for work in self.works if work.token]  # Those that have not begun.
        for task in tasks:
            work = TaskWork(task, self.carry_task, self.ended.put)
            self.works.append(work)
            self.running += 1
            self.workers.submit(work)

    def _next(self, effect: Next) -> Finished:
        if self.ready:
            # A node of a root run that is alone has nobody to share the slots with.
            slot = None if self.run.parent is None else self.workers.take()
            return contextvars.copy_context().run(self.carry_task, self.ready.pop(), slot)
        while True:
            done = self._take(effect.deadline)
            if done is not None:
                return done

    def _next_live(self, effect: Next) -> Any:
        self.sink.notify = self._notify
        try:
            while True:
                self.told = False
                yield from self._events()
                done = self._take(effect.deadline)
                if done is not None:
                    return done
        finally:
            self.sink.notify = None

    def _take(self, deadline: float | None) -> Finished | None:
        try:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            done = self.ended.get(timeout=left)
        except queue.Empty:
            raise TimeoutError("Timed out") from None
        if done is not None:
            self.running -= 1
        return done

    def _store(self, effect: Store) -> None:
        assert self.run.saver is not None
        self.run.saver.submit(effect.batch, self._stored)
        self.push()

    def _stored(self, error: BaseException | None) -> None:
        if error is not None:
            self.run.failure = self.run.failure or error

    def _commit(self, effect: Commit) -> None:
        assert self.run.saver is not None
        self.run.saver.submit(effect.batch).wait()

    def _cancel(self, effect: Cancel) -> list[Finished]:
        """Drops what has not begun, and waits for the rest: threads cannot be stopped."""
        ended = [Finished(work.task, not_begun()) for work in self.works if work.claim()]
        self.running -= len(ended)
        while self.running:
            done = self._take(None)
            if done is not None:
                ended.append(done)
        self.works.clear()
        self.ready.clear()
        return ended

    def _wait(self, effect: Wait) -> None:
        time.sleep(effect.seconds)

    def _now(self, effect: Now) -> tuple[float, int]:
        return time.monotonic(), time.time_ns()

    def _tell(self, effect: Tell) -> None:
        effect.visit.tell(effect.moment, effect.value)

    # calls ------------------------------------------------------------------------------

    def refuse(self, job: Job) -> None:
        """Raises RuntimeError for an async task: nothing here could await it."""
        if job.frame.action.is_async:
            raise RuntimeError(
                f"task {job.call.name!r} is async, but the workflow runs sync; call the workflow with "
                "ainvoke or astream from async code, or make the task a plain function"
            )


_PERFORM: dict[type[Effect[Any]], Callable[[SyncDriver, Any], Any]] = {
    Load: SyncDriver._load,
    Start: SyncDriver._start,
    Next: SyncDriver._next,
    Store: SyncDriver._store,
    Commit: SyncDriver._commit,
    Cancel: SyncDriver._cancel,
    Wait: SyncDriver._wait,
    Now: SyncDriver._now,
    Tell: SyncDriver._tell,
}


def not_begun() -> Cancelled:
    """The outcome of a task that the end of its run was ahead of."""
    return Cancelled(CancelSignal("the run ended before the task began"))
