"""What user code reaches while it runs.

A *frame* is one piece of user code that runs: a node, or a call of a task. A *scope* is what
the code of a frame holds of it on one line of execution (its body, a coroutine or a thread
that it started): the context variable points to a scope, and a scope that finds itself on
another line than its own makes one for that line.
"""

from __future__ import annotations

import logging
import reprlib
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_128_hexdigest

from perdure.context import scope_var
from perdure.engine.calls import Call
from perdure.engine.frame import Frame, Job
from perdure.engine.limits import progress
from perdure.engine.lines import Branch
from perdure.engine.refusals import unstorable
from perdure.engine.tasks import Error, Outcome, Paused, uuid_of
from perdure.errors import ContextError, DrainSignal, GraphInterrupt, NonDeterminismError
from perdure.runtime import Runtime
from perdure.types import Interrupt

if TYPE_CHECKING:
    from perdure.config import RunnableConfig
    from perdure.messages import MessageWriter
    from perdure.types import StreamWriter

logger = logging.getLogger("perdure")


class Scope:
    """What one line of a frame's code holds of the run."""

    __slots__ = ("branch_", "frame", "line", "thread")

    def __init__(self, frame: Frame, branch: Branch | None, thread: int, line: Any) -> None:
        self.frame = frame
        self.branch_ = branch
        self.thread = thread
        self.line = line

    @property
    def branch(self) -> Branch:
        """The line of calls that is made here."""
        if self.branch_ is None:
            self.branch_ = self.frame.book.root
        return self.branch_

    @property
    def config(self) -> RunnableConfig:
        return self.frame.config

    @property
    def runtime(self) -> Runtime[Any]:
        return self.frame.runtime

    @property
    def writer(self) -> StreamWriter:
        return self.frame.writer

    def here(self) -> Scope:
        """This scope, or a new one when another coroutine or thread inherited it."""
        if self.thread == threading.get_ident() and self.line is _line():
            return self
        scope = Scope(self.frame, Branch(self.branch), threading.get_ident(), _line())
        scope_var.set(scope)
        return scope

    def check_open(self) -> None:
        """Raises the signal that ended this line of calls, if one has."""
        frame = self.frame
        signal = frame.run.closing or self.branch.closed
        if signal is not None:
            frame.refused = signal
            raise signal
        if frame.fatal is not None:
            raise frame.fatal
        if frame.done:
            raise ContextError(
                f"{frame.name!r} has ended, but code that it started still calls into its run; "
                "wait for such coroutines and threads before it returns"
            )

    def call(self, task: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Starts a call, or finds its outcome; returns a future. See `perdure.func.task`."""
        scope = self.here()
        scope.check_open()
        frame, run = scope.frame, scope.frame.run
        try:
            call, outcome = scope.place(task.action.name, run.digest(task.action, args, kwargs), task.key)
        except NonDeterminismError as error:
            error.add_note(f"the call made now: {_shown_call(task.action.name, args, kwargs)}")
            raise
        if outcome is not None:
            run.tell.call_restored(frame, call, args, kwargs)
            return run.world.known(frame, outcome)
        child = Frame(
            run,
            id=call.id,
            name=call.name,
            action=task.action,
            args=args,
            kwargs=kwargs,
            retry=task.retry_policy or run.program.retry,
            caller=frame,
            call=call,
        )
        child.timeout = task.timeout
        if run.cache is not None:
            child.cache = task.cache_policy or run.program.cache
        job = Job(call, child, frame, scope.branch)
        run.world.refuse(job)
        if run.limits:
            progress(frame)
        frame.open.add(job)
        run.tell.call_started(child)
        return run.world.start(job)

    def place(self, name: str, digest: str, key: str | None = None) -> tuple[Call, Outcome | None]:
        """Gives a call its identity and looks for its recorded outcome.

        Raises:
            NonDeterminismError: Another call is recorded where this one stands.
            DrainSignal: The call would have to run, but the run is to stop between tasks.
            GraphInterrupt: The call is recorded as paused, and no answer has come for it.
        """
        frame, run = self.frame, self.frame.run
        call = frame.book.place(
            self.branch, name, digest, key=key, solo=not (frame.open or frame.inner), now=run.clock()
        )
        outcome = None
        if run.ledger.outcomes:
            line = self.branch if key is None else frame.book.root
            outcome = frame.book.find(call, line, run.ledger)
        if type(outcome) is Paused:
            frame.ask(outcome.interrupts)
        elif isinstance(outcome, Error):
            frame.failed[call.id] = outcome.error
        if outcome is None:
            self._check_divergence(call)
            if run.control.between == "tasks" and run.control.drain_requested:
                raise self.stop(DrainSignal(run.control.drain_reason or "shutdown"))
        return call, outcome

    def _check_divergence(self, call: Call) -> None:
        run = self.frame.run
        if not run.ledger.places or run.on_divergence == "allow":
            return
        error = run.ledger.divergence(call)
        if error is None or self.frame.book.has_twins(self.branch, run.ledger):
            return
        if run.on_divergence == "error":
            self.frame.fatal = error
            raise error
        logger.warning("%s", error)

    def stop(self, signal: BaseException) -> BaseException:
        """Closes this line of calls with a signal, and gives the signal back to be raised."""
        self.branch.close(signal)
        return signal

    def interrupt(self, value: Any, response_schema: Any = None) -> Any:
        """The answer to the frame's next question, or the pause. See `perdure.types.interrupt`."""
        scope = self.here()
        scope.check_open()
        frame = scope.frame
        branch = scope.branch
        number = branch.asked
        branch.asked += 1
        line = scope.line_asking(number, value) if branch.parent is not None else ""
        identity = frame.question_id(line, number)
        _forget_cache(frame)
        found, answer = frame.run.answers.take(frame, line, number, value)
        if found:
            return frame.run.answers.check(identity, answer, response_schema)
        if frame.run.saver is not None:
            try:
                frame.run.saver.check(value)
            except Exception as error:
                raise unstorable(f"task {frame.name!r} asked a question with", error) from error
        question = Interrupt(value, identity, json_schema(response_schema))
        frame.ask((question,))
        raise scope.stop(GraphInterrupt((question,)))

    def line_asking(self, number: int, value: Any) -> str:
        """The name of the started line that asks its next question."""
        frame, answers = self.frame, self.frame.run.answers

        def identity(line: str) -> str:
            return frame.question_id(line, number)

        lines = frame.run.ledger.lines
        return frame.book.asks(self.branch, answers.digest(value), identity, lines, answers.payload_of)

    def write(self, channel: str, value: Any) -> None:
        """Adds a write to those of the node that runs, also from within a task that it called."""
        frame = self.frame
        if frame.run.limits and self._late():
            return
        while frame.caller is not None:
            frame = frame.caller
        frame.writes.append((channel, value))

    def _late(self) -> bool:
        """True for what is left of an attempt whose time is over; else it shows progress."""
        if self.frame.done or self.branch.closed is not None:
            return True
        progress(self.frame)
        return False

    def message(self, message: Any) -> None:
        """Tells the listeners of `messages` about a message."""
        if self.frame.run.limits and self._late():
            return
        self.frame.run.tell.message(self.frame, message)

    def message_writer(self, id: str | None, about: Mapping[str, Any]) -> MessageWriter:
        """A writer of one message for the listeners of `messages`; it works on any thread."""
        return self.frame.run.tell.message_writer(self.frame, id or self.new_id(), about)

    def new_id(self) -> str:
        """An id that is the same again when this code is replayed."""
        frame = self.here().frame
        with frame.lock:
            number = frame.ids
            frame.ids += 1
        return uuid_of(xxh3_128_hexdigest(f"{frame.id}\0{number}".encode()))

    def holds(self, thread_id: str) -> bool:
        """Whether the run, or one around it, holds the thread."""
        frame: Frame | None = self.frame
        while frame is not None:
            run = frame.run
            if run.thread_id == thread_id and run.saver is not None and run.hold.held:
                return True
            frame = run.parent
        return False


def _forget_cache(frame: Frame | None) -> None:
    """A result that an answer goes into is not cached, nor is that of the code around it."""
    while frame is not None:
        frame.cache = None
        frame = frame.caller if frame.caller is not None else frame.run.parent


def _shown_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    given = [reprlib.repr(value) for value in args]
    given += [f"{key}={reprlib.repr(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(given)})"


def scope_of(frame: Frame) -> Scope:
    """The scope of the line of execution of a frame's body, which is the one that runs right here."""
    scope, thread, line = frame.scope_, threading.get_ident(), _line()
    if scope is None or scope.thread != thread or scope.line is not line:
        scope = frame.scope_ = Scope(frame, None, thread, line)
    return scope


def _line() -> Any:
    """The asyncio task that runs here; None outside of an event loop.

    A program that never loaded asyncio has no loop, and need not load it for this.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    loop = asyncio._get_running_loop()
    return None if loop is None else asyncio.current_task(loop)


def json_schema(schema: Any) -> dict[str, Any] | None:
    """The JSON schema that a question shows: a dict as it is, a class converted by pydantic."""
    if schema is None or isinstance(schema, dict):
        return schema
    try:
        from pydantic import TypeAdapter
    except ImportError as error:
        raise ImportError(
            f"response_schema={schema!r} needs pydantic to check answers (pip install pydantic); "
            "a JSON schema given as a dict is only shown, and needs nothing"
        ) from error
    return dict(TypeAdapter(schema).json_schema())
