"""The loop: one run, from its input to its end, as a generator of effects.

    begin       load the thread, take its lease with the first write, plan the first superstep
    superstep   run the tasks, record each as it ends, apply their writes, store the checkpoint
    leave       record what is open, free the lease

What ends a run: no task is due; a question or a breakpoint (paused); an error; a drain between
supersteps; too many supersteps; a signal from outside. In every case what finished is recorded
before the run is left.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from perdure.checkpoint.port import Batch, Record, ThreadChanged
from perdure.engine.effects import Cancel, Commit, Load, Next, Now, Start, Steps, Tell, Wait
from perdure.engine.handlers import handled_writes, take_over
from perdure.engine.live import Run
from perdure.engine.opening import Opening, open_run
from perdure.engine.outcomes import noted
from perdure.engine.refusals import unstorable
from perdure.engine.rules import State, apply_writes, breakpoint_hit, next_tasks
from perdure.engine.saving import find_unstorable, next_checkpoint
from perdure.engine.tasks import (
    ERROR,
    INTERRUPT,
    NO_WRITES,
    NULL_TASK,
    RESUME,
    Cancelled,
    Drained,
    Error,
    Finished,
    ForParent,
    Handled,
    Paused,
    Task,
    Value,
    path_text,
)
from perdure.errors import (
    CancelSignal,
    DrainSignal,
    ErrorCode,
    GraphBubbleUp,
    GraphDrained,
    GraphRecursionError,
    InvalidUpdateError,
    LeaseLostError,
    ParentCommand,
    ThreadBusyError,
    UnstorableError,
    create_error_message,
    is_invalid_resume,
)

logger = logging.getLogger("perdure")

_BUSY_POLL = 0.02
"""Seconds between two looks at a thread that another run holds."""


def run(r: Run) -> Steps[None]:
    """Carries a run out. Its results are in `r`: values in the channels, interrupts, paused.

    Raises:
        GraphDrained: A drain was asked for, and work remains.
        GraphRecursionError: The supersteps are used up, and work remains.
        ThreadBusyError, LeaseLostError: The thread belongs, or went, to another run.
        Exception: What a task raised.
    """
    try:
        yield from _begin(r)
        while r.tasks:
            if _stops_before(r):
                break
            tasks, checkpoint_id = r.tasks, r.checkpoint_id
            try:
                yield from _superstep(r)
            except UnstorableError as error:
                yield from _blame(r, tasks, checkpoint_id, error)
        if r.tasks and not r.paused:
            _raise_unfinished(r)
        if r.saver is not None:
            yield from r.journal.leave([])
        if r.failure is not None:
            raise r.failure
    except BaseException as error:
        yield from _abandon(r, error)
        raise


def _begin(r: Run) -> Steps[None]:
    if r.saver is None:
        opening = open_run(r, None, None)
        if r.sink.modes:
            opening.announce(r)
        return
    while True:
        opening = yield from _load(r)
        try:
            if r.journal.checks:
                r.saver.check(r.input)
            for batch in opening.batches(r):
                yield from _claim(r, batch)
        except UnstorableError as error:
            name = r.program.entrypoint or r.program.name
            raise unstorable(f"the input of workflow {name!r} has", error) from error
        except ThreadChanged:
            continue
        except ThreadBusyError:
            if r.options.on_busy != "wait":
                raise
            yield from Wait(_BUSY_POLL)
            continue
        break
    opening.announce(r)
    if opening.resumed and r.guest is not None:
        visit = r.guest.visit_resume()
        if visit is not None:
            yield Tell(visit, "begin")


def _claim(r: Run, batch: Batch) -> Steps[None]:
    """Stores what begins the run. While that is under way the thread counts as held: when the run
    is cancelled meanwhile, it has to be freed."""
    r.hold.held = r.hold.held or batch.claim
    try:
        yield from Commit(batch)
    except Exception:
        r.hold.held = r.hold.held and not batch.claim
        raise


def _load(r: Run) -> Steps[Opening]:
    assert r.thread_id is not None  # Where there is a saver, a thread is named.
    loaded = yield from Load(r.thread_id, r.ns, r.checkpoint_id_asked)
    head = None
    if r.checkpoint_id_asked is not None:
        head = (yield from Load(r.thread_id, r.ns, None)).tuple
    return open_run(r, loaded, head)


def _stops_before(r: Run) -> bool:
    """True when the next superstep is not to run now."""
    if r.step >= r.stop:
        return True
    if r.options.interrupt_before and breakpoint_hit(r.state, r.options.interrupt_before, r.tasks):
        r.paused = True
        r.tell.breakpoint()
        return True
    return r.control.drain_requested


def _raise_unfinished(r: Run) -> None:
    if r.step < r.stop:
        reason = r.control.drain_reason or "shutdown"
        raise GraphDrained(reason) if r.own_control else DrainSignal(reason)
    message = (
        f"Recursion limit of {r.options.recursion_limit} reached without hitting a stop condition; due now: "
        f"{', '.join(task.name for task in r.tasks)}. Raise `recursion_limit` in the config, or go on with "
        "invoke(None, config)"
    )
    code = ErrorCode.GRAPH_RECURSION_LIMIT
    raise GraphRecursionError(create_error_message(message=message, error_code=code))


def _superstep(r: Run) -> Steps[None]:
    if r.sink.modes:
        r.tell.tasks_started(r.tasks)
    waiting = [task for task in r.tasks if task.outcome is None]
    if waiting:
        yield Start(waiting)
        deadline = None
        if r.options.step_timeout is not None:
            deadline = (yield from Now())[0] + r.options.step_timeout
        left = len(waiting)
        while left:
            done: Finished = yield Next(deadline)
            if type(done.outcome) is Error and (handler := take_over(r.program, done)) is not None:
                yield from _hand_over(r, done, handler)
                continue
            left -= 1
            record = _settle(r, done)
            if left:
                yield from _store(r, done.task, record)
            else:
                r.owed = [] if record is None else [record]
                r.unsaid = [done.task] if r.sink.modes else ()
            if r.failure is not None:
                raise r.failure
            if left and type(done.outcome) in (Error, Cancelled):
                yield from _stop_siblings(r)
                break
    for task in r.tasks:
        if type(task.outcome) is not Value and type(task.outcome) is not Handled:
            yield from _end_unfinished(r)
            return
    yield from _advance(r)


def _store(r: Run, task: Task, record: Record | None) -> Steps[None]:
    """Stores how a task ended, while others still run, and tells who listens.

    Nobody is told of what could still be lost: with listeners, `sync` waits here for the disk.
    """
    if record is not None:
        store = r.journal.ahead if r.sink.modes else r.journal.task
        yield from store(record)
    r.tell.task_ended(task)


def _say(r: Run, step: int | None = None) -> None:
    """Tells of the task that ended last, in superstep `step`, now that it is on record."""
    r.owed = ()
    for task in r.unsaid:
        r.tell.task_ended(task, step)
    r.unsaid = ()


def _hand_over(r: Run, done: Finished, handler: Task) -> Steps[None]:
    """Starts the handler of a node that has failed, once that is recorded."""
    record = _settle(r, done)
    if record is not None:
        yield from r.journal.ahead(record)
    r.tell.task_ended(done.task)
    if r.failure is not None:
        raise r.failure
    r.tasks.append(handler)
    r.tell.tasks_started([handler])
    yield from Start([handler])


def _blame(r: Run, tasks: list[Task], checkpoint_id: str, error: UnstorableError) -> Steps[None]:
    """A value of a superstep cannot be stored: fails the task that returned it."""
    culprit = find_unstorable(r, tasks)
    if culprit is None:
        raise error
    task, named = culprit
    task.outcome = Error(named)
    r.owed = [record for record in r.owed if record.task_id != task.id]
    r.checkpoint_id = checkpoint_id
    noted(named, task.name, task.id)
    yield from r.journal.task(Record(r.ns, checkpoint_id, task.id, [(ERROR, named)], path_text(task.path)))
    raise named from error


def _settle(r: Run, done: Finished) -> Record | None:
    """Notes how a task ended; gives what is to be recorded of it."""
    task, outcome = done.task, done.outcome
    task.outcome = outcome
    if r.journal.checks and type(outcome) is Value:
        culprit = find_unstorable(r, [task])
        if culprit is not None:
            task.outcome = outcome = Error(culprit[1])
    if r.saver is None:
        return None
    writes: list[tuple[str, Any]]
    if type(outcome) is Value:
        writes = list(outcome.value) or [(NO_WRITES, None)]
    elif type(outcome) is Error:
        if is_invalid_resume(outcome.error):
            return Record(r.ns, r.checkpoint_id, NULL_TASK, [(RESUME, r.answers.stored())])
        writes = [(ERROR, outcome.error), *done.extra]
    elif type(outcome) is Handled:
        writes = handled_writes(task, outcome.error)
    elif type(outcome) is Paused:
        writes = [(INTERRUPT, list(outcome.interrupts)), *done.extra]
    elif done.extra:
        writes = list(done.extra)
    else:
        return None
    return Record(r.ns, r.checkpoint_id, task.id, writes, path_text(task.path))


def _stop_siblings(r: Run) -> Steps[None]:
    """After a failure: stops what can be stopped, and keeps what finished all the same."""
    yield from _keep(r, (yield from Cancel()))


def _keep(r: Run, ended: Sequence[Finished]) -> Steps[None]:
    """Records what ended while the run was being stopped."""
    for done in ended:
        take_over(r.program, done, stopping=True)
        record = _settle(r, done)
        if record is not None and type(done.outcome) is not Cancelled:
            yield from r.journal.task(record)
        r.tell.task_ended(done.task)


def _end_unfinished(r: Run) -> Steps[None]:
    """Ends a run whose superstep did not finish: the error wins, then a command for a graph
    above, a drain from below, and at last the questions."""
    outcomes = [task.outcome for task in r.tasks]
    for kind in (Error, Cancelled, ForParent, Drained):
        for task, outcome in zip(r.tasks, outcomes, strict=True):
            if type(outcome) is not kind:
                continue
            yield from r.journal.leave(r.owed)
            _say(r)
            if isinstance(outcome, Error):
                raise noted(outcome.error, task.name, task.id)
            if isinstance(outcome, Cancelled):
                raise outcome.cause
            if isinstance(outcome, ForParent):
                _raise_for_parent(r, outcome)
            if isinstance(outcome, Drained):
                raise GraphDrained(outcome.reason) if r.own_control else DrainSignal(outcome.reason)
    r.paused = True
    asked = [outcome.interrupts for outcome in outcomes if isinstance(outcome, Paused)]
    r.interrupts = [question for questions in asked for question in r.answers.open_of(questions)]
    if r.answers.moved and r.parent is None and r.saver is not None:
        r.owed = [*r.owed, Record(r.ns, r.checkpoint_id, NULL_TASK, [(RESUME, r.answers.stored())])]
    yield from r.journal.leave(r.owed)
    _say(r)
    _show_finished(r)
    r.tasks = []


def _show_finished(r: Run) -> None:
    """What finished beside a pause shows in the result; it is applied when the superstep ends."""
    finished = [task for task in r.tasks if type(task.outcome) is Value]
    if finished:
        channels = {key: channel.copy() for key, channel in r.state.channels.items()}
        state = State(channels, dict(r.state.versions))
        changed = apply_writes(r.program, state, finished, r.next_version(r.step), advance=False)
        r.paused_view = channels
        r.tell.paused(changed)


def _raise_for_parent(r: Run, outcome: ForParent) -> None:
    if r.parent is not None:
        raise ParentCommand(outcome.command)
    raise InvalidUpdateError(
        f"There is no parent graph above {r.program.name!r}, but a node returned {outcome.command!r}"
    )


def _advance(r: Run) -> Steps[None]:
    """Applies the writes of a finished superstep, plans the next one and stores the checkpoint."""
    number = r.hold.number() if r.saver is not None else r.step + 2
    changed = apply_writes(r.program, r.state, r.tasks, r.next_version(number))
    if r.parent is None and r.answers_ is not None:
        r.answers_.given.clear()
    if r.parent is None and r.saver is not None:
        r.hold.lasting.clear()
    checkpoint = next_checkpoint(r, number, "loop", changed)
    r.step += 1
    done = r.tasks
    r.tasks = next_tasks(r.program, r.state, r.checkpoint_id, r.ns, r)
    names = r.options.interrupt_after
    stops = bool(names) and breakpoint_hit(r.state, names, done)
    r.ledger_ = None
    if checkpoint is not None:
        last = stops or not r.tasks or _will_stop(r)
        yield from r.journal.step(r.owed, checkpoint, last=last)
    r.owed = ()
    if r.sink.modes:
        _say(r, r.step - 1)
        r.tell.values_after(changed)
        if checkpoint is not None:
            r.tell.checkpoint(checkpoint)
    if stops:
        r.paused = True
        r.tell.breakpoint()
        r.tasks = []


def _will_stop(r: Run) -> bool:
    names = r.options.interrupt_before
    return r.step >= r.stop or r.control.drain_requested or breakpoint_hit(r.state, names, r.tasks)


def _abandon(r: Run, error: BaseException) -> Steps[None]:
    """Ends a run by an error or a signal: stops its code, keeps what finished, frees the thread."""
    r.closing = r.closing or (error if isinstance(error, GraphBubbleUp) else _ended(error))
    yield from _keep(r, (yield from Cancel(wait_threads=isinstance(error, Exception))))
    if isinstance(error, LeaseLostError):
        return
    try:
        yield from r.journal.leave(r.owed, clean=False)
        _say(r)
    except LeaseLostError:
        return  # What a cancelled wait left behind has freed the thread already, or another run took it.
    except Exception as second:
        if r.saver is not None and r.hold.held:
            r.saver.forsake(r.hold.thread_id, r.hold.epoch)
            r.hold.held = False
        if second is not error:
            logger.exception("the run ended with %r, and leaving its thread failed", error)


def _ended(error: BaseException) -> BaseException:
    return CancelSignal(f"the run has ended: {error!r}")
