"""Carrying out user code on an event loop, and on threads for it.

Async code runs as asyncio tasks. Sync code never runs on the loop's thread, where waiting for a
result would hang it, but on workers; only what is known to be brief runs right here.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import random
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

from perdure.checkpoint.foreign import ForeignSaver
from perdure.checkpoint.port import Batch
from perdure.context import scope_var
from perdure.engine.attempt import attempts
from perdure.engine.carry import Carrier, Resolve, resolve_future
from perdure.engine.effects import CacheGet, Invoke, Limit, Sleep, Tell
from perdure.engine.frame import Frame, Job
from perdure.engine.futures import CallFuture, CallWork
from perdure.engine.limits import Watch
from perdure.engine.live import Run
from perdure.engine.outcomes import close_frame, dropped_by, outcome_of, signal_of
from perdure.engine.program import Write
from perdure.engine.scope import scope_of
from perdure.engine.tasks import Cancelled, Error, Finished, Outcome, Task, Value
from perdure.engine.workers import Slot, Workers, threads
from perdure.errors import GraphBubbleUp
from perdure.slotted import replace

_GRACE = 1.0
"""Seconds that code has to end in when its time is over."""
_PLAIN = frozenset((dict, str, list, type(None)))
"""What code mostly returns; whether other values can be awaited takes longer to find out."""


class LoopCarrier(Carrier):
    """Carries out frames of one run on the running event loop."""

    def __init__(self, run: Run, workers: Workers) -> None:
        super().__init__(run, workers)
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self.slots = _Slots(run.options.max_concurrency) if run.options.max_concurrency else None
        self.saving: set[asyncio.Task[None]] = set()
        self.lock = threading.Lock()
        self.alive = 0
        """Threads that run user code of this run at this moment."""
        self.release_later: Batch | None = None

    def _post(self, function: Callable[..., None], *args: Any) -> None:
        """Calls a function on the loop's thread; from a thread that outlived its loop, nowhere."""
        try:
            self.loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            if not self.loop.is_closed():
                raise

    async def _off_loop(self, function: Callable[..., Any], *args: Any) -> Any:
        """Runs a blocking function of ours on a spare thread."""
        future: asyncio.Future[Any] = self.loop.create_future()

        def settle(value: Any, error: BaseException | None) -> None:
            if not future.done():
                if error is None:
                    future.set_result(value)
                else:
                    future.set_exception(error)

        def work() -> None:
            try:
                value = function(*args)
            except (StopIteration, GeneratorExit) as error:
                self._post(settle, None, _carried(error))
            except BaseException as error:
                self._post(settle, None, error)
            else:
                self._post(settle, value, None)

        threads.start(work)
        return await future

    # on threads -------------------------------------------------------------------------

    def _release_after_threads(self, batch: Batch) -> Batch:
        """When the run is left while threads of it still run, the last of them frees the thread."""
        with self.lock:
            if not self.alive:
                return batch
            self.release_later = Batch(batch.thread_id, batch.epoch, release=True)
        return replace(batch, release=False)

    def _arrive(self) -> None:
        with self.lock:
            self.alive += 1

    def _leave(self) -> None:
        with self.lock:
            self.alive -= 1
            release = self.release_later if not self.alive else None
        if release is not None and self.run.saver is not None:
            self.run.saver.submit(release)
            self.run.saver.flush()

    def carry_task(self, task: Task, slot: Slot | None) -> Finished:
        """Runs a node's task on this thread, which the run's lease waits for."""
        self._arrive()
        try:
            closing = self.run.closing
            if closing is not None:  # The lease may have been freed before this thread came.
                return Finished(task, Cancelled(closing))
            return super().carry_task(task, slot)
        finally:
            self._leave()

    def carry_call(self, job: Job, resolve: Resolve) -> None:
        """Runs a call on this thread, which the run's lease waits for."""
        self._arrive()
        try:
            super().carry_call(job, resolve)
        finally:
            self._leave()

    def invoke(self, frame: Frame, effect: Invoke) -> Any:
        """Calls user code on this thread; a coroutine that it returns is awaited on the loop."""
        value = super().invoke(frame, effect)
        if inspect.isawaitable(value):
            return asyncio.run_coroutine_threadsafe(_awaited(value), self.loop).result()
        return value

    # on the loop ------------------------------------------------------------------------

    async def _carry_on_loop(self, frame: Frame) -> tuple[Outcome, Sequence[Write]]:
        """Runs a frame's code on the loop once it has a slot, and waits for what it has started."""
        outcome: Outcome
        try:
            if self.slots is not None:
                await self.slots.acquire()
                frame.slot = LoopSlot()
            outcome = Value(await self._attempts_on_loop(frame))
        except BaseException as error:
            me = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and me is not None and me.cancelling():
                outcome = Cancelled(error)
            else:
                outcome = outcome_of(frame, error)
        if frame.open:
            await self._settle_open(frame, outcome)
        self.release_slot(frame)
        outcome = close_frame(frame, outcome)
        return outcome, dropped_by(frame, outcome)

    def closed(self, frame: Frame, error: BaseException) -> tuple[Outcome, Sequence[Write]]:
        """What became of a frame whose code did not end, but was closed: by a GeneratorExit that a
        future brought to the asyncio task, which closes all that the task awaits. To be called by
        what the task runs, which alone is left."""
        if self.loop.is_closed():
            raise error  # It is the program that ends.
        self.release_slot(frame)
        outcome = close_frame(frame, outcome_of(frame, error))
        return outcome, dropped_by(frame, outcome)

    async def _attempts_on_loop(self, frame: Frame) -> Any:
        steps = attempts(frame)
        answer: Any = None
        try:
            effect = next(steps)
            while True:
                try:
                    if type(effect) is Invoke and effect.action.brief:
                        answer = super().invoke(frame, effect)
                    elif type(effect) is Invoke:
                        watch = frame.watch
                        call = self._invoke(frame, effect)
                        answer = await (call if watch is None else self._within(watch, frame, call))
                    elif type(effect) is Tell:
                        await effect.visit.atell(effect.moment, effect.value)
                    elif type(effect) is Sleep:
                        await self._settle_open(frame, Value(None))
                        await asyncio.sleep(effect.policy.delay(effect.attempt, random.random()))
                    elif type(effect) is Limit:
                        answer = Watch(effect.policy, time.monotonic)
                    else:
                        answer = await self._in_cache_on_loop(effect)
                except BaseException as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(answer)
        except StopIteration as stop:
            return stop.value

    async def _within(self, watch: Watch, frame: Frame, call: Coroutine[Any, Any, Any]) -> Any:
        """Awaits a call of user code while there is time; then it is cancelled and left behind."""
        work = self.loop.create_task(call, name=frame.name)
        cancelled: asyncio.CancelledError | None = None
        while not work.done() and (left := watch.left) > 0:
            try:
                await asyncio.wait([work], timeout=left)
            except asyncio.CancelledError as signal:
                cancelled = signal
                work.cancel()  # Whoever cancels the task means the code that runs in it.
        if work.done():
            return work.result()
        error = watch.error(frame.name)
        frame.close_attempt(asyncio.CancelledError(str(error)))
        work.cancel()
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait([work], timeout=_GRACE)
        await self._settle_open(frame, Cancelled(error))
        raise cancelled or error

    async def _in_cache_on_loop(self, effect: Any) -> Any:
        cache, key = self.run.cache, effect.key
        if type(effect) is CacheGet:
            return await cache.aget([(key.ns, key.key)])
        return await cache.aset({(key.ns, key.key): (effect.value, key.ttl)})

    async def _invoke(self, frame: Frame, effect: Invoke) -> Any:
        action = effect.action
        if action.asyn is not None:
            scope_var.set(scope_of(frame))
            if self.run.guest is not None:
                self.run.guest.put(frame)
            value = await action.asyn(*effect.args, **effect.kwargs)
        else:
            value = await self._on_worker(frame, effect)
        # An async function may return what it should have awaited.
        while type(value) not in _PLAIN and inspect.isawaitable(value):
            value = await value
        return value

    async def _on_worker(self, frame: Frame, effect: Invoke) -> Any:
        self._arrive()  # Here, so that nobody frees the thread before the worker has begun.
        return await self._off_loop(contextvars.copy_context().run, self._invoke_and_leave, frame, effect)

    def _invoke_and_leave(self, frame: Frame, effect: Invoke) -> Any:
        try:
            return self.invoke(frame, effect)
        finally:
            self._leave()

    async def _settle_open(self, frame: Frame, outcome: Outcome) -> None:
        """Waits for the calls that a frame made and did not wait for.

        After a failure or a cancel those on the loop are cancelled and those that have not begun
        are dropped; a call on a thread runs on, and a cancelled run does not wait for it.
        """
        stop, abandon = type(outcome) in (Error, Cancelled), type(outcome) is Cancelled
        while frame.open:
            waiting: list[asyncio.Future[Any]] = []
            for job in list(frame.open):
                future = job.future
                if future is None:
                    continue  # It has ended on its thread this very moment.
                stopped = stop and job.stop()
                if abandon and not stopped:
                    frame.open.discard(job)
                    if isinstance(future, asyncio.Future):
                        future.cancel()  # The thread goes on; coroutines that wait for it need not.
                    continue
                waiting.append(self._end_of(future) if isinstance(future, Future) else future)
            try:
                if not waiting:
                    await asyncio.sleep(0)
                    return
                await asyncio.wait(waiting)
            except asyncio.CancelledError:
                stop = abandon = True
                continue
            ended = [job for job in list(frame.open) if job.future is None or job.future.done()]
            frame.open.difference_update(ended)

    def _end_of(self, future: Future[Any]) -> asyncio.Future[Any]:
        """Done when a call that a thread made has ended, however it did; nobody asks here how."""
        ended: asyncio.Future[Any] = self.loop.create_future()
        future.add_done_callback(lambda _: self._post(_set, ended, None))
        return ended

    # calls ------------------------------------------------------------------------------

    def refuse(self, job: Job) -> None:
        """An async driver carries out every call."""

    def start(self, job: Job) -> Any:
        """Begins a call; gives a coroutine an awaitable future, a sync function on a worker a
        concurrent one."""
        on_loop = threading.get_ident() == self.thread
        if job.frame.action.asyn is not None:
            return self._start_here(job) if on_loop else self._start_from_thread(job)
        if on_loop:
            return self._start_on_worker(job)
        return super().start(job)

    def _start_here(self, job: Job) -> asyncio.Task[Any]:
        self.release_slot(job.caller)
        task = self.loop.create_task(self._call(job), name=job.call.name)
        task.add_done_callback(lambda done: self._ended(job, done))
        job.future = task
        return task

    def _ended(self, job: Job, task: asyncio.Task[Any]) -> None:
        job.caller.open.discard(job)
        if task.cancelled():
            return
        signal = task._exception
        if isinstance(signal, GraphBubbleUp):
            job.branch.close(signal)

    async def _call(self, job: Job) -> Any:
        frame = job.frame
        try:
            outcome, extra = await self._carry_on_loop(frame)
        except BaseException as error:
            outcome, extra = self.closed(frame, error)
        if type(outcome) is Cancelled and isinstance(outcome.cause, asyncio.CancelledError):
            raise outcome.cause
        told: asyncio.Future[Outcome] = self.loop.create_future()

        def resolve(final: Outcome) -> None:
            if threading.get_ident() == self.thread:
                _set(told, final)
            else:
                self._post(_set, told, final)

        self.finish(job, outcome, extra, resolve)
        cancelled: asyncio.CancelledError | None = None
        while not told.done():
            try:
                await asyncio.shield(told)
            except asyncio.CancelledError as error:
                # It has ended, and its record is on the way: the caller may not end before that.
                cancelled = error
        if cancelled is not None:
            raise cancelled
        final = told.result()
        if type(final) is Value:
            return final.value
        raise signal_of(final)

    def _start_on_worker(self, job: Job) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self.loop.create_future()

        def resolve(final: Outcome) -> None:
            self._post(_resolve, future, final)

        work = CallWork(job, lambda job: self.carry_call(job, resolve))
        job.future, job.work = future, work
        future.add_done_callback(lambda done: work.claim() if done.cancelled() else None)
        self.release_slot(job.caller)
        self.workers.submit(work)
        return future

    def _start_from_thread(self, job: Job) -> CallFuture:
        future = CallFuture(job)
        job.future = future
        self.release_slot(job.caller)
        context = contextvars.copy_context()

        async def carry() -> None:
            try:
                outcome, extra = await self._carry_on_loop(job.frame)
            except BaseException as error:
                outcome, extra = self.closed(job.frame, error)
            self.finish(job, outcome, extra, lambda final: resolve_future(future, final))

        def end(task: asyncio.Task[None]) -> None:
            if task.cancelled():
                resolve_future(future, Cancelled(asyncio.CancelledError()))

        def begin() -> None:
            if future.set_running_or_notify_cancel():
                job.task = self.loop.create_task(carry(), context=context)
                job.task.add_done_callback(end)

        self._post(begin)
        return future

    def known(self, frame: Frame, outcome: Outcome) -> Any:
        """A future that has its outcome."""
        if threading.get_ident() != self.thread:
            return super().known(frame, outcome)
        future: asyncio.Future[Any] = self.loop.create_future()
        _resolve(future, outcome)
        if isinstance(future.exception(), GraphBubbleUp):
            frame.book.root.close(signal_of(outcome))
        return future

    def store(self, job: Job, record: Any, outcome: Outcome, resolve: Callable[[Outcome], None]) -> None:
        """Hands a call's record over; to a saver of another make through its own coroutines."""
        saver = self.run.saver
        if not isinstance(saver, ForeignSaver) or threading.get_ident() != self.thread:
            super().store(job, record, outcome, resolve)
            return
        batch = self.run.journal.call(record)
        if batch is None:
            self._told(job, outcome, resolve)
            return

        async def save() -> None:
            try:
                await saver.acommit(batch)
            except BaseException as error:
                resolve(Cancelled(error) if not isinstance(error, Exception) else Error(error))
            else:
                self._told(job, outcome, resolve)

        task = self.loop.create_task(save())
        self.saving.add(task)
        task.add_done_callback(self.saving.discard)

    def push(self) -> None:
        """Sees to it that what was handed over gets to the disk: never here on the loop."""
        saver = self.run.saver
        assert saver is not None
        if threading.get_ident() == self.thread:
            saver.wake()
        else:
            super().push()

    def release_slot(self, frame: Frame) -> None:
        """A frame makes a call: it may begin to wait, so another may start."""
        slot = frame.slot
        if isinstance(slot, LoopSlot):
            if threading.get_ident() == self.thread:
                self._free(slot)
            elif slot.held:
                self._post(self._free, slot)
        else:
            super().release_slot(frame)

    def _free(self, slot: LoopSlot) -> None:
        """On the loop's thread, where several threads that release a slot come one after another."""
        if slot.held and self.slots is not None:
            slot.held = False
            self.slots.release()


class LoopSlot(Slot):
    """Held by a piece of user code that runs on the loop."""

    __slots__ = ()


class _Slots:
    """How many pieces of async user code may run at once."""

    def __init__(self, limit: int) -> None:
        self.free = limit
        self.waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Waits for a slot."""
        if self.free > 0:
            self.free -= 1
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Frees a slot, for the one who waits longest."""
        while self.waiting:
            future = self.waiting.popleft()
            if not future.done():
                future.set_result(None)
                return
        self.free += 1


def _carried(error: BaseException) -> RuntimeError:
    """What stands for an exception that no future can bring to a coroutine: it would be refused, or
    end the coroutine instead of being raised in it."""
    carried = RuntimeError(f"sync code raised {type(error).__name__}")
    carried.__cause__ = error
    return carried


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def _set(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _resolve(future: asyncio.Future[Any], outcome: Outcome) -> None:
    if future.done():
        return
    if type(outcome) is Value:
        future.set_result(outcome.value)
    else:
        future.set_exception(signal_of(outcome))
