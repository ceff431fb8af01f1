"""Carries a run's effects out for an async caller, on his event loop and on workers.

Nothing here blocks: what touches a disk is done by the saver's writer thread or by a worker.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from perdure.checkpoint.foreign import ForeignSaver
from perdure.checkpoint.port import Batch
from perdure.engine.carry import frame_of
from perdure.engine.carry_async import LoopCarrier
from perdure.engine.drive_sync import not_begun
from perdure.engine.effects import (
    Cancel,
    Commit,
    Effect,
    Load,
    Next,
    Now,
    Start,
    Store,
    Tell,
    Wait,
)
from perdure.engine.futures import TaskWork
from perdure.engine.limits import progress
from perdure.engine.live import Run
from perdure.engine.run import run as loop
from perdure.engine.tasks import Finished, Task
from perdure.engine.workers import Workers
from perdure.stream.sink import Event

_BACKLOG = 64
"""Batches of `durability="async"` that may wait for the disk before the run slows down."""


class AsyncDriver(LoopCarrier):
    """Drives one run on the running event loop; `drive()` yields the events that are wanted."""

    def __init__(self, run: Run, workers: Workers) -> None:
        super().__init__(run, workers)
        run.world = self
        self.sink = run.sink
        self.shared = run.parent is not None and run.parent.run.sink is run.sink
        self.live = run.sink.live and not self.shared
        self.ended: deque[Finished] = deque()
        self.waiter: asyncio.Future[None] | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self.works: dict[Task, TaskWork] = {}
        self.on_threads = 0
        self.backlog = 0
        self.leaving = False

    async def drive(self) -> AsyncIterator[Event]:
        """Carries the run out; yields events as they come. Raises what ends the run."""
        steps = loop(self.run)
        sink = self.sink
        if self.live:
            sink.notify = self._wake_soon
        answer: Any = None
        error: BaseException | None = None
        try:
            while True:
                effect = steps.send(answer) if error is None else steps.throw(error)
                answer = error = None
                try:
                    while sink.queue and not self.leaving and not self.shared:
                        yield sink.queue.popleft()
                    if type(effect) is Next:
                        while not self.ended:
                            await self._until_woken(effect.deadline)
                            while self.live and sink.queue and not self.leaving:
                                yield sink.queue.popleft()
                        answer = self.ended.popleft()
                    elif type(effect) is Start:
                        self._start(effect)
                    else:
                        answer = await _PERFORM[type(effect)](self, effect)
                except BaseException as raised:
                    self.leaving = self.leaving or isinstance(raised, GeneratorExit)
                    error = raised
        except StopIteration:
            while sink.queue and not self.leaving and not self.shared:
                yield sink.queue.popleft()
        except BaseException:
            while sink.queue and not self.leaving and not self.shared:
                yield sink.queue.popleft()
            raise
        finally:
            if self.live:
                sink.notify = None

    # waking -----------------------------------------------------------------------------

    def _wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def _wake_soon(self) -> None:
        if threading.get_ident() == self.thread:
            self._wake()
        else:
            self._post(self._wake)

    def _put(self, done: Finished) -> None:
        self.ended.append(done)
        if self.run.limits:
            progress(self.run.parent)
        self._wake()

    async def _until_woken(self, deadline: float | None) -> None:
        self.waiter = self.loop.create_future()
        try:
            if deadline is None:
                await self.waiter
            else:
                await asyncio.wait_for(self.waiter, max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise TimeoutError("Timed out") from None
        finally:
            self.waiter = None

    # effects ----------------------------------------------------------------------------

    async def _load(self, effect: Load) -> Any:
        saver = self.run.saver
        assert saver is not None
        if isinstance(saver, ForeignSaver):
            return await saver.aload(effect.thread_id, effect.ns, effect.checkpoint_id)
        if not saver.blocking:
            return saver.load(effect.thread_id, effect.ns, effect.checkpoint_id)
        return await self._off_loop(saver.load, effect.thread_id, effect.ns, effect.checkpoint_id)

    def _start(self, effect: Start) -> None:
        for task in effect.tasks:
            if _is_sync(task):
                work = TaskWork(task, self.carry_task, self._task_left)
                self.works[task] = work
                self.on_threads += 1
                self.workers.submit(work)
            else:
                self.tasks.add(self.loop.create_task(self._carry_task(task), name=task.name))

    async def _store(self, effect: Store) -> None:
        saver = self.run.saver
        assert saver is not None
        if isinstance(saver, ForeignSaver):
            await saver.acommit(effect.batch)
            return
        if not saver.blocking:
            saver.submit(effect.batch, self._stored)
            return
        while self.backlog >= _BACKLOG:
            await self._until_woken(None)
        self.backlog += 1
        saver.submit(effect.batch, lambda error: self._post(self._stored_one, error))
        saver.wake()

    def _stored(self, error: BaseException | None) -> None:
        if error is not None:
            self.run.failure = self.run.failure or error

    def _stored_one(self, error: BaseException | None) -> None:
        self.backlog -= 1
        self._stored(error)
        self._wake()

    async def _commit(self, effect: Commit) -> None:
        saver = self.run.saver
        assert saver is not None
        batch = effect.batch
        if batch.release:
            batch = self._release_after_threads(batch)
        if isinstance(saver, ForeignSaver):
            await saver.acommit(batch)
        elif not saver.blocking:
            saver.submit(batch).wait()
        else:
            await asyncio.shield(self._durable(batch))

    def _durable(self, batch: Batch) -> asyncio.Future[None]:
        saver = self.run.saver
        assert saver is not None
        future: asyncio.Future[None] = self.loop.create_future()

        def settle(error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        saver.submit(batch, lambda error: self._post(settle, error))
        saver.wake()
        return future

    async def _cancel(self, effect: Cancel) -> list[Finished]:
        """Cancels what runs on the loop and waits for it; drops what has not begun on threads."""
        for task, work in list(self.works.items()):
            if work.claim():
                self.on_threads -= 1
                self.ended.append(Finished(task, not_begun()))
                self.works.pop(task)
        running = [task for task in self.tasks if not task.done()]
        for started in running:
            started.cancel()
        while running:
            try:
                await asyncio.wait(running)
            except asyncio.CancelledError:
                continue  # Cancelled once more while ending: first end.
            running = [task for task in running if not task.done()]
        while effect.wait_threads and self.on_threads:
            await self._until_woken(None)
        ended, self.ended = list(self.ended), deque()
        self.tasks.clear()
        return ended

    async def _wait(self, effect: Wait) -> None:
        await asyncio.sleep(effect.seconds)

    async def _now(self, effect: Now) -> tuple[float, int]:
        return time.monotonic(), time.time_ns()

    async def _tell(self, effect: Tell) -> None:
        await effect.visit.atell(effect.moment, effect.value)

    # tasks ------------------------------------------------------------------------------

    async def _carry_task(self, task: Task) -> None:
        frame = frame_of(self.run, task)
        try:
            outcome, extra = await self._carry_on_loop(frame)
        except BaseException as error:
            outcome, extra = self.closed(frame, error)
        self.tasks.discard(asyncio.current_task())
        self._put(Finished(task, outcome, extra))

    def _task_left(self, done: Finished) -> None:
        """On a worker: a node's task has ended."""
        self._post(self._task_ended, done)

    def _task_ended(self, done: Finished) -> None:
        self.works.pop(done.task, None)
        self.on_threads -= 1
        self._put(done)

    async def akeep(self, batch: Batch) -> None:
        """Stores a batch about a nested run, and waits for it where the durability asks for that."""
        await (self._commit(Commit(batch)) if self.run.journal.waits else self._store(Store(batch)))


_PERFORM: dict[type[Effect[Any]], Callable[[AsyncDriver, Any], Awaitable[Any]]] = {
    Load: AsyncDriver._load,
    Store: AsyncDriver._store,
    Commit: AsyncDriver._commit,
    Cancel: AsyncDriver._cancel,
    Wait: AsyncDriver._wait,
    Now: AsyncDriver._now,
    Tell: AsyncDriver._tell,
}


def _is_sync(task: Task) -> bool:
    """True when all of a task's code can only run on a thread."""
    node = task.node
    return node.action.asyn is None and all(branch.path.asyn is None for branch in node.branches)
