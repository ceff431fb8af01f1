"""Carrying out user code on the thread that is here; what both drivers share."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from perdure.checkpoint.port import Batch
from perdure.context import scope_var
from perdure.engine.attempt import attempts
from perdure.engine.effects import CacheGet, Invoke, Limit, Sleep, Tell
from perdure.engine.frame import Frame, Job, remember
from perdure.engine.futures import CallFuture, CallWork
from perdure.engine.limits import only_async, progress
from perdure.engine.live import Run
from perdure.engine.outcomes import (
    close_frame,
    dropped_by,
    lose,
    noted,
    outcome_of,
    record_of_call,
    signal_of,
)
from perdure.engine.program import Write
from perdure.engine.refusals import unstorable
from perdure.engine.scope import scope_of
from perdure.engine.tasks import Cancelled, Error, Finished, Outcome, Task, Value
from perdure.engine.workers import Slot, Workers

Resolve = Callable[[Outcome], None]
"""Tells whoever waits for a call how it ended."""


def frame_of(run: Run, task: Task) -> Frame:
    """The frame of a node's task."""
    node = task.node
    frame = Frame(
        run,
        id=task.id,
        name=task.name,
        action=node.action,
        args=(task.input,),
        kwargs={},
        retry=node.retry if node.retry is not None else run.program.retry,
        task=task,
    )
    frame.error = task.failure
    frame.timeout = node.timeout if task.timeout is None else task.timeout
    if run.cache is not None and not node.hidden:
        frame.cache = node.cache or run.program.cache
    return frame


class Carrier:
    """Carries out frames of one run on threads."""

    def __init__(self, run: Run, workers: Workers) -> None:
        self.run = run
        self.workers = workers

    def carry_task(self, task: Task, slot: Slot | None) -> Finished:
        """Runs a node's task here, all of its attempts, with a slot that the caller has taken for it."""
        frame = frame_of(self.run, task)
        frame.slot = slot
        outcome, extra = self.carry(frame)
        return Finished(task, outcome, extra)

    def carry_call(self, job: Job, resolve: Resolve) -> None:
        """Runs a call here, records how it ended, and resolves its future when that is due."""
        closing = self.run.closing
        if closing is not None:
            self.release_slot(job.frame)
            self.finish(job, Cancelled(closing), (), resolve)
            return
        outcome, extra = self.carry(job.frame)
        self.finish(job, outcome, extra, resolve)

    def carry(self, frame: Frame) -> tuple[Outcome, Sequence[Write]]:
        """Runs a frame's code here, and waits for what it has started."""
        outcome: Outcome
        try:
            outcome = Value(self._attempts(frame))
        except BaseException as error:
            outcome = outcome_of(frame, error)
        finally:
            if frame.open:
                self._settle_calls(frame)
            if frame.slot is not None and not frame.slot.serves:
                self.workers.give_back(frame.slot)
        outcome = close_frame(frame, outcome)
        return outcome, dropped_by(frame, outcome)

    def _attempts(self, frame: Frame) -> Any:
        steps = attempts(frame)
        answer: Any = None
        try:
            effect = next(steps)
            while True:
                try:
                    if type(effect) is Invoke:
                        answer = self.invoke(frame, effect)
                    elif type(effect) is Tell:
                        effect.visit.tell(effect.moment, effect.value)
                    elif type(effect) is Sleep:
                        self._settle_calls(frame)
                        time.sleep(effect.policy.delay(effect.attempt, random.random()))
                    elif type(effect) is Limit:
                        raise only_async(f"{frame.name!r} runs sync here")
                    else:
                        answer = self._in_cache(effect)
                except BaseException as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(answer)
        except StopIteration as stop:
            return stop.value

    def _in_cache(self, effect: Any) -> Any:
        cache, key = self.run.cache, effect.key
        if type(effect) is CacheGet:
            return cache.get([(key.ns, key.key)])
        return cache.set({(key.ns, key.key): (effect.value, key.ttl)})

    def invoke(self, frame: Frame, effect: Invoke) -> Any:
        """Calls user code on this thread."""
        call = effect.action.sync
        if call is None:
            raise TypeError(
                f'No synchronous function provided to "{effect.action.name}". '
                "It is an async function: use ainvoke, astream or another async method of the workflow"
            )
        if effect.action.brief:
            return call(*effect.args)  # It reaches nothing of the run.
        scope_var.set(scope_of(frame))
        if self.run.guest is not None:
            self.run.guest.put(frame)
        return call(*effect.args, **effect.kwargs)

    def _settle_calls(self, frame: Frame) -> None:
        """Waits for the calls that a frame made and did not wait for."""
        while frame.open:
            for job in list(frame.open):
                future = job.future
                if isinstance(future, CallFuture):
                    future.help()
                    future.settled()
                elif future is not None:
                    future.result()
                frame.open.discard(job)

    def finish(self, job: Job, outcome: Outcome, extra: Sequence[Write], resolve: Resolve) -> None:
        """Records how a call ended; `resolve` is called once that is durable, or at once where
        the run's durability does not ask for it. Never raises."""
        try:
            if isinstance(outcome, Error):
                noted(outcome.error, job.call.name, job.call.id)
            record = record_of_call(job, outcome, extra) if self.run.saver is not None else None
            if record is None:
                self._told(job, outcome, resolve)
                return
            try:
                self.store(job, record, outcome, resolve)
            except Exception as error:
                failed = Error(unstorable(f"task {job.call.name!r} returned", error))
                failure = record_of_call(job, failed)
                assert failure is not None
                self.store(job, failure, failed, resolve)
        except BaseException as error:
            # Whatever goes wrong here, whoever waits for the call must learn of it.
            resolve(Cancelled(lose(self.run, error)))

    def store(self, job: Job, record: Any, outcome: Outcome, resolve: Resolve) -> None:
        """Hands a call's record over. Raises UnstorableError when its value cannot be stored."""
        run, saver = self.run, self.run.saver
        assert saver is not None
        if run.journal.checks and type(outcome) is Value:
            saver.check(outcome.value)
        batch = run.journal.call(record)
        if batch is None:
            self._told(job, outcome, resolve)
            return

        def durable(error: BaseException | None) -> None:
            if error is not None:
                resolve(Cancelled(lose(run, error)))
            elif run.journal.waits:
                self._told(job, outcome, resolve)

        saver.submit(batch, durable)
        if not run.journal.waits:
            self._told(job, outcome, resolve)
        elif saver.blocking:
            self.release_slot(job.frame)  # The thread waits for the disk now.
        self.push()

    def push(self) -> None:
        """Sees to it that what was handed over gets to the disk."""
        saver = self.run.saver
        assert saver is not None
        if self.run.journal.waits:
            saver.flush()
        else:
            saver.wake()

    def keep(self, batch: Batch) -> None:
        """Stores a batch about a nested run, and waits for it where the durability asks for that."""
        saver = self.run.saver
        assert saver is not None
        ticket = saver.submit(batch)
        if self.run.journal.waits:
            ticket.wait()
        else:
            saver.wake()

    async def akeep(self, batch: Batch) -> None:
        """`keep` for async code; an async driver does better than to block."""
        self.keep(batch)

    def _told(self, job: Job, outcome: Outcome, resolve: Resolve) -> None:
        remember(job, outcome)
        if self.run.limits:
            progress(job.caller)
        self.run.tell.call_ended(job.frame, outcome)
        resolve(outcome)

    # calls ------------------------------------------------------------------------------

    def start(self, job: Job) -> Any:
        """Queues a call for a worker, or for whoever waits for it; gives a sync caller's future."""
        work = CallWork(
            job, lambda job: self.carry_call(job, lambda outcome: resolve_future(future, outcome))
        )
        future = CallFuture(job, work, self.workers)
        job.future, job.work = future, work
        self.release_slot(job.caller)
        self.workers.submit(work)
        return future

    def known(self, frame: Frame, outcome: Outcome) -> Any:
        """A sync caller's finished future, for a recorded outcome."""
        job = Job(None, frame, frame, frame.book.root)  # type: ignore[arg-type]
        future = CallFuture(job)
        resolve_future(future, outcome)
        return future

    def release_slot(self, frame: Frame) -> None:
        """A frame makes a call: it may begin to wait, so another may start."""
        if frame.slot is not None and frame.slot.held:
            self.workers.give_back(frame.slot)


def resolve_future(future: Any, outcome: Outcome) -> None:
    """Puts an outcome into a concurrent future, unless the call was cancelled."""
    if future.done():
        return
    if type(outcome) is Value:
        future.set_result(outcome.value)
    else:
        future.set_exception(signal_of(outcome))
