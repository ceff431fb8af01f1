"""How a piece of user code ended, and what is recorded of it. Pure."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from perdure.checkpoint.port import Record
from perdure.engine.calls import parts_of
from perdure.engine.frame import Frame, Job, warn_unclaimed
from perdure.engine.live import Run
from perdure.engine.program import Write
from perdure.engine.tasks import (
    ERROR,
    INTERRUPT,
    RETURN,
    SCHEDULED,
    Cancelled,
    Drained,
    Error,
    ForParent,
    Handled,
    Outcome,
    Paused,
    Value,
)
from perdure.errors import (
    DrainSignal,
    GraphBubbleUp,
    GraphInterrupt,
    LeaseLostError,
    LeaseLostSignal,
    NodeCancelledError,
    ParentCommand,
    is_invalid_resume,
)

logger = logging.getLogger("perdure")


def outcome_of(frame: Frame, error: BaseException) -> Outcome:
    """What an exception that left a frame's code means.

    A signal counts wherever it is: raised as it is, in a group, or as what another error was
    raised from.
    """
    if frame.fatal is not None:
        return Error(frame.fatal)
    if is_invalid_resume(error):
        return Error(error)
    signal = next((part for part in parts_of(error) if isinstance(part, GraphBubbleUp)), None)
    if isinstance(signal, GraphInterrupt):
        frame.ask(signal.interrupts)
        return Paused(tuple(frame.questions))
    if isinstance(signal, ParentCommand):
        return ForParent(signal.command)
    if isinstance(signal, DrainSignal):
        return Drained(str(signal.args[0]) if signal.args else "shutdown")
    if signal is not None:
        return Cancelled(frame.run.failure or error)
    if is_cancel(error):
        # Nobody cancelled the task from outside: the user's own code raised this.
        return Error(NodeCancelledError(frame.name))
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return Cancelled(error)
    if isinstance(error, GeneratorExit):
        # As it is, it would be taken for the end of whatever generator it passes.
        refused = RuntimeError(f"{frame.name!r} raised GeneratorExit")
        refused.__cause__ = error
        return Error(refused)
    _hint(frame, error)
    return Error(error)


_FUTURES = ("CallFuture", "_asyncio.Task", "_asyncio.Future")
"""How futures of calls are named in errors of code that takes them for results."""


def _hint(frame: Frame, error: BaseException) -> None:
    """Adds what to write instead where the future of a call was taken for its result."""
    asyncio = sys.modules.get("asyncio")
    kinds: tuple[type, ...] = (Future,) if asyncio is None else (Future, asyncio.Future)
    if asyncio is not None and isinstance(error, asyncio.InvalidStateError):
        hint = (
            "In async code the call of a task is awaited: `await task(...)`; `.result()` does not wait there"
        )
    elif not isinstance(error, (TypeError, AttributeError)):
        return
    elif any(isinstance(value, kinds) for value in (*frame.args, *frame.kwargs.values())):
        hint = (
            f"{frame.name!r} was given the future of a call, not its result: pass on what "
            "`task(...).result()` gives, or `await task(...)` in async code"
        )
    elif any(name in str(error) for name in _FUTURES):
        hint = (
            "The call of a task gives a future: its result is `task(...).result()`, or `await task(...)` in "
            "async code"
        )
    else:
        return
    with contextlib.suppress(Exception):  # A class of the user's may refuse notes.
        error.add_note(hint)


def is_cancel(error: BaseException) -> bool:
    """True for the error by which asyncio cancels."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError)


def close_frame(frame: Frame, outcome: Outcome) -> Outcome:
    """Ends a frame once everything that it started has ended; gives the outcome that holds."""
    frame.done = True
    if frame.scope_ is not None:
        frame.scope_.line = None  # The line's context refers back to the scope.
        frame.scope_ = None
    if type(outcome) in (Value, Paused) and frame.questions:
        outcome = Paused(tuple(frame.questions))
    elif type(outcome) is Value and frame.run.ledger_ is not None:
        warn_unclaimed(frame)
    if frame.unheard:
        undelivered = drop_undelivered(frame)
        if type(outcome) is Value:
            frame.run.ledger.dropped.difference_update(undelivered)
    return outcome


def drop_undelivered(frame: Frame) -> list[str]:
    """Logs failures that nobody asked for. They decided nothing: their calls are tried again. Gives
    the ids of the calls."""
    unheard = [job for job in frame.unheard if job.future is not None and not _heard(job.future)]
    frame.unheard.clear()
    for job in unheard:
        failure = frame.failed.get(job.call.id)
        logger.warning("task %r failed, but nobody asked for its result: %r", job.call.name, failure)
    ids = [job.call.id for job in unheard]
    frame.run.ledger.dropped.update(ids)
    return ids


def _heard(future: Any) -> bool:
    heard = getattr(future, "heard", None)
    if heard is not None:
        return bool(heard)
    if future.cancelled():
        return False
    untold = bool(getattr(future, "_log_traceback", False))
    if untold:
        future.exception()
    return not untold


def dropped_by(frame: Frame, outcome: Outcome) -> Sequence[Write]:
    """What a frame that did not finish says about failed calls: those that are to be tried again."""
    if type(outcome) is Value:
        return ()
    ledger = frame.run.ledger
    if isinstance(outcome, Error):
        ledger.drop_failures(frame.failed, outcome.error)
    return [(SCHEDULED, sorted(ledger.dropped))] if ledger.dropped else ()


def record_of_call(job: Job, outcome: Outcome, extra: Sequence[Write] = ()) -> Record | None:
    """What is recorded of a call; None where the call is to run again."""
    run, call = job.frame.run, job.call
    writes: list[Write]
    if type(outcome) is Value:
        writes = [(RETURN, outcome.value)]
    elif isinstance(outcome, Error):
        if is_invalid_resume(outcome.error):
            return None
        writes = [(ERROR, outcome.error), *extra]
    elif isinstance(outcome, Paused):
        writes = [(INTERRUPT, list(outcome.interrupts)), *extra]
    elif extra:
        writes = list(extra)
    else:
        return None
    return Record(run.ns, run.checkpoint_id, call.id, writes, job.frame.path_text, call.info(run.clock()))


def noted(error: BaseException, name: str, task_id: str) -> BaseException:
    """The error, with a note that says in which task it was raised; each task says so once."""
    note = f"During task with name '{name}' and id '{task_id}'"
    with contextlib.suppress(Exception):  # A class of the user's may refuse notes.
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    return error


def lose(run: Run, error: BaseException) -> BaseException:
    """A save failed: ends the run's user code; gives the signal that its callers get."""
    run.failure = run.failure or error
    signal = LeaseLostSignal(str(error) if isinstance(error, LeaseLostError) else repr(error))
    run.closing = run.closing or signal
    return signal


def signal_of(outcome: Outcome) -> BaseException:
    """The exception by which a caller learns of a call that has no value."""
    if isinstance(outcome, (Error, Handled)):
        return outcome.error
    if isinstance(outcome, Paused):
        return GraphInterrupt(outcome.interrupts)
    if isinstance(outcome, Drained):
        return DrainSignal(outcome.reason)
    if isinstance(outcome, ForParent):
        return ParentCommand(outcome.command)
    assert isinstance(outcome, Cancelled)
    return outcome.cause
