"""One piece of user code that runs: what the engine keeps of it, and of what it has started."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_128_hexdigest

from perdure.engine.calls import Call, CallBook
from perdure.engine.limits import Watch, heartbeat, sign_of_life, watched, watches_of
from perdure.engine.lines import Branch
from perdure.engine.tasks import PUSH, Error, Outcome, Path, Paused, Task, Value, path_text
from perdure.errors import CancelSignal, GraphInterrupt
from perdure.runtime import ExecutionInfo, Runtime
from perdure.slotted import slotted
from perdure.types import Interrupt

if TYPE_CHECKING:
    from perdure.config import RunnableConfig
    from perdure.engine.action import Action
    from perdure.engine.live import Run
    from perdure.engine.program import Write
    from perdure.engine.scope import Scope
    from perdure.engine.workers import Slot
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
        self.slot: Slot | None = None
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
    task: Any = None
    """The asyncio task of a call that a thread has made of an async function."""

    def stop(self) -> bool:
        """Cancels the call, where that can be done: on a loop, or before it has begun; True if so."""
        work, future, task = self.work, self.future, self.task
        if task is not None:
            task.cancel()
            return True
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
        job.future = job.work = job.task = None  # Nobody looks at it again; it refers back to the job.
    ledger.dropped.discard(job.call.id)
    if isinstance(outcome, Error):
        caller.failed[job.call.id] = outcome.error
        caller.unheard.append(job)
    elif isinstance(outcome, Paused):
        caller.ask(outcome.interrupts)
    if caller.keeps and type(outcome) in (Value, Error):
        ledger.outcomes[job.call.id] = outcome
        caller.book.remember(job.call, ledger)
