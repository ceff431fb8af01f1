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
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_128_hexdigest

from perdure.context import scope_var
from perdure.engine.calls import Branch, Call, CallBook
from perdure.engine.limits import Watch, heartbeat, progress, sign_of_life, watched, watches_of
from perdure.engine.refusals import unstorable
from perdure.engine.tasks import (
    INTERRUPT,
    PUSH,
    Error,
    Outcome,
    Path,
    Paused,
    Task,
    Value,
    path_text,
    uuid_of,
)
from perdure.errors import CancelSignal, ContextError, DrainSignal, GraphInterrupt, NonDeterminismError
from perdure.runtime import ExecutionInfo, Runtime
from perdure.slotted import slotted
from perdure.types import Interrupt

if TYPE_CHECKING:
    from perdure.config import RunnableConfig
    from perdure.engine.action import Action
    from perdure.engine.live import Run
    from perdure.engine.program import Write
    from perdure.messages import MessageWriter
    from perdure.types import CachePolicy, RetryPolicy, StreamWriter, TimeoutPolicy

logger = logging.getLogger("perdure")


class Frame:
    """One piece of user code that runs, over all its attempts."""

    __slots__ = (
        "action", "args", "attempt", "book_", "cache", "cached", "call", "caller", "config_",
        "depth", "done", "error", "failed", "fatal", "first_time", "id", "ids", "inner", "kwargs", "lock",
        "name", "nested", "ns", "open", "output", "path_text_", "questions", "refused", "retry", "run",
        "runtime_", "scope_", "slot", "taken", "task", "timeout", "unheard", "watch", "writes",
    )  # fmt: skip

    def __init__(
        self,
        run: Run,
        *,
        id: str,
        name: str,
        action: Action,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        retry: Sequence[RetryPolicy],
        caller: Frame | None = None,
        task: Task | None = None,
        call: Call | None = None,
    ) -> None:
        self.run = run
        self.id = id
        self.name = name
        self.action = action
        self.args = args
        self.kwargs = kwargs
        self.retry = retry
        self.cache: CachePolicy[Any] | None = None
        self.cached = False
        self.timeout: TimeoutPolicy | None = None
        self.watch: Watch | None = None
        self.caller = caller
        self.task = task
        self.call = call
        above: str = caller.ns if caller is not None else run.ns
        self.ns: str = f"{above}|{name}:{id}" if above else f"{name}:{id}"
        self.questions: list[Interrupt] = []
        self.open: set[Job | Inner] = set()
        self.failed: dict[str, BaseException] = {}
        self.unheard: list[Job] = []
        self.path_text_ = ""
        self.depth: int = caller.depth + 1 if caller is not None else 0
        self.fatal: BaseException | None = None
        self.done = False
        self.slot = False
        self.inner = 0
        self.attempt = 0
        self.error: Any = None
        self.output: Any = None
        self.lock = threading.Lock()
        self.config_: RunnableConfig | None = None
        self.first_time = run.clock()
        self.begin()

    def begin(self) -> None:
        """Makes ready for the next attempt: nothing written, nothing asked, no call made yet."""
        if self.attempt:
            # What an earlier attempt left running may not call any more.
            self.close_attempt(CancelSignal(f"attempt {self.attempt} of {self.name!r} has ended"))
        self.attempt += 1
        self.ids = 0
        self.nested = 0
        self.refused: BaseException | None = None
        self.taken: set[str] = set()
        self.book_: CallBook | None = None
        self.scope_: Scope | None = None
        self.writes: list[Write] = []
        self.runtime_: Runtime[Any] | None = None

    def close_attempt(self, signal: BaseException) -> None:
        """What the attempt has left running gets this signal when it calls."""
        root = self.book.root
        root.close(signal)
        if self.scope_ is not None and self.scope_.branch_ is None:
            self.scope_.branch_ = root

    @property
    def path(self) -> Path:
        """Place of the task in the run: the node's, or the caller's with the call's number."""
        if self.call is not None and self.caller is not None:
            return (PUSH, self.caller.path, self.call.index, True)
        assert self.task is not None
        return self.task.path

    @property
    def path_text(self) -> str:
        """The path as text, by which stored writes are ordered."""
        if not self.path_text_:
            if self.call is not None and self.caller is not None:
                self.path_text_ = f"~{PUSH}, {self.caller.path_text}, {self.call.index:010d}, 0000000001"
            else:
                self.path_text_ = path_text(self.path)
        return self.path_text_

    @property
    def keeps(self) -> bool:
        """Outcomes of calls must be at hand, because some body above may run again."""
        return bool(self.retry) or (self.caller is not None and self.caller.keeps)

    @property
    def config(self) -> RunnableConfig:
        if self.config_ is None:
            self.config_ = self.run.config_of(self)
        return self.config_

    @property
    def runtime(self) -> Runtime[Any]:
        if self.runtime_ is None:
            run = self.run
            info = ExecutionInfo(
                checkpoint_id=run.checkpoint_id,
                checkpoint_ns=self.ns,
                task_id=self.id,
                thread_id=run.thread_id,
                run_id=run.run_id,
                node_attempt=self.attempt,
                node_first_attempt_time=self.first_time,
            )
            self.runtime_ = Runtime(
                context=run.context,
                store=run.store,
                stream_writer=self.writer,
                previous=run.previous,
                execution_info=info,
                server_info=run.server_info,
                control=run.control,
            )
            if run.limits:
                self.runtime_ = self.runtime_.override(heartbeat=heartbeat(watches_of(self)))
        return self.runtime_

    @property
    def writer(self) -> StreamWriter:
        writer = self.run.custom_writer
        return watched(writer, watches_of(self)) if self.run.limits else writer

    @property
    def sign_of_life(self) -> Callable[[], None]:
        """To be called when something shows that the code makes progress, from any thread."""
        return sign_of_life(watches_of(self))

    def injected(self, key: str) -> Any:
        """The value of an injected parameter."""
        if key == "config":
            return self.config
        if key == "runtime":
            return self.runtime
        if key == "writer":
            return self.writer
        if key == "store":
            return self.run.store
        if key == "previous":
            return self.run.previous
        return self.error

    def question_id(self, line: str, number: int) -> str:
        """Id of a question of the frame.

        Args:
            line: Id of the branch that asks; empty for the body itself.
            number: Number of the question among those of its branch, from 0.
        """
        parts = (self.ns, *((line, str(number)) if line else (str(number),) if number else ()))
        return xxh3_128_hexdigest("|".join(parts).encode())

    def ask(self, questions: Sequence[Interrupt]) -> None:
        """Adds open questions of this frame or of what it called; each once."""
        known = {question.id for question in self.questions}
        self.questions.extend(q for q in questions if q.id not in known)

    @property
    def book(self) -> CallBook:
        """The calls of this attempt; there is none until the first is made."""
        if self.book_ is None:
            with self.lock:
                self.book_ = self.book_ or CallBook(self.id)
        return self.book_

    @property
    def signal(self) -> BaseException | None:
        """What has ended the calls of the body, if any was refused or met a signal."""
        return self.refused or (self.book_.root.closed if self.book_ is not None else None)

    def scope(self) -> Scope:
        """The scope of the body's line of execution, which is the one that runs right here."""
        scope, thread, line = self.scope_, threading.get_ident(), _line()
        if scope is None or scope.thread != thread or scope.line is not line:
            scope = self.scope_ = Scope(self, None, thread, line)
        return scope


@slotted(eq=False)
class Job:
    """A call on its way: what a driver is given to carry out."""

    call: Call
    frame: Frame
    caller: Frame
    branch: Branch
    future: Any = None
    work: Any = None
    """For a call that runs on a thread: what is queued there."""

    def stop(self) -> bool:
        """Cancels the call, where that can be done: on a loop, or before it has begun; True if so."""
        work, future = self.work, self.future
        if future is None or (work is not None and not work.claim()):
            return False
        future.cancel()
        return True


class Inner:
    """A nested run under way, among the open calls of its caller.

    Args:
        future: Done when the run has ended and is on record.
        task: The asyncio task that it runs in; None on a thread, where nothing can stop it.
    """

    __slots__ = ("future", "task")

    def __init__(self, future: Any, task: Any = None) -> None:
        self.future = future
        self.task = task

    def stop(self) -> bool:
        """Cancels the run, where that can be done; True if so."""
        if self.task is not None:
            self.task.cancel()
        return self.task is not None


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
        if error is None or self.frame.book.twins(self.branch, run.ledger):
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
        line = frame.book.name(branch, INTERRUPT, frame.run.answers.digest(value)) if branch.parent else ""
        number = branch.asked
        branch.asked += 1
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


def _line() -> Any:
    """The asyncio task that runs here; None outside of an event loop.

    A program that never loaded asyncio has no loop, and need not load it for this.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return None
    return asyncio.current_task()


def json_schema(schema: Any) -> dict[str, Any] | None:
    """The JSON schema that a question shows: a dict as it is, a class converted by pydantic."""
    if schema is None or isinstance(schema, dict):
        return schema
    from pydantic import TypeAdapter

    return dict(TypeAdapter(schema).json_schema())


def settle_attempt(frame: Frame) -> None:
    """What holds when a body has returned: a pause or a mismatch that it swallowed is noticed.

    Raises:
        GraphInterrupt: A question is open.
        NonDeterminismError: The code does not match its record.
    """
    if frame.questions:
        raise GraphInterrupt(tuple(frame.questions))
    if frame.fatal is not None:
        raise frame.fatal
    if frame.signal is not None:
        raise frame.signal


def warn_unclaimed(frame: Frame) -> None:
    """Logs recorded results that the body did not ask for this time."""
    if frame.cached or not frame.run.ledger.by_caller:
        return
    names = list(frame.run.ledger.unclaimed(frame.id))
    if names:
        logger.warning(
            "%r ended without asking for %d recorded result(s): %s", frame.name, len(names), ", ".join(names)
        )


def remember(job: Job, outcome: Outcome) -> None:
    """Notes in the caller's books how a call ended."""
    caller, ledger = job.caller, job.frame.run.ledger
    caller.open.discard(job)
    if type(outcome) is Value:
        job.future = job.work = None  # Nobody looks at it again; it refers back to the job.
    ledger.dropped.discard(job.call.id)
    if isinstance(outcome, Error):
        caller.failed[job.call.id] = outcome.error
        caller.unheard.append(job)
    elif isinstance(outcome, Paused):
        caller.ask(outcome.interrupts)
    if caller.keeps and type(outcome) in (Value, Error):
        ledger.outcomes[job.call.id] = outcome
