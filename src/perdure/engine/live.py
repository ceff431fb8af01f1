"""One run as it stands: what the loop, the frames and the drivers share."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from perdure.engine.answers import Answers
from perdure.engine.calls import Ledger
from perdure.engine.hold import Hold, recast
from perdure.engine.journal import Journal, NoJournal
from perdure.engine.program import Program, Write
from perdure.engine.report import Report
from perdure.engine.rules import State
from perdure.engine.tasks import Outcome, Task
from perdure.runtime import RunControl, ServerInfo
from perdure.serde.digest import digest as digest_of
from perdure.slotted import field, slotted
from perdure.stream.sink import DEAF, Sink

if TYPE_CHECKING:
    from perdure.channels.base import BaseChannel
    from perdure.checkpoint.port import Batch, NativeSaver, Record
    from perdure.config import RunnableConfig
    from perdure.engine.action import Action
    from perdure.engine.frame import Frame, Job
    from perdure.engine.guest import Guest
    from perdure.engine.workers import Workers
    from perdure.types import Interrupt

DEFAULT_RECURSION_LIMIT = int(os.environ.get("PERDURE_DEFAULT_RECURSION_LIMIT", "10007"))

_TRACED = ("thread_id", "checkpoint_id", "checkpoint_ns", "task_id", "run_id", "assistant_id", "graph_id")
"""Keys of `configurable` that the metadata of user code repeats."""


_making = threading.Lock()
"""Held while something is made that nodes on several threads share."""

if hasattr(os, "register_at_fork"):
    # A child that is forked while another thread holds it could never make anything.
    os.register_at_fork(
        before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release
    )

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NO_JOURNAL = NoJournal()


def _nothing() -> Mapping[str, Any]:
    return _NOTHING


class World(Protocol):
    """What a driver does for user code while the loop is suspended."""

    def start(self, job: Job) -> Any:
        """Begins a call; returns the future that its caller gets."""
        ...

    def known(self, frame: Frame, outcome: Outcome) -> Any:
        """A finished future, for a call whose outcome is recorded."""
        ...

    def refuse(self, job: Job) -> None:
        """Raises when this driver cannot carry the call out."""
        ...

    @property
    def workers(self) -> Workers:
        """The threads of the root run."""
        ...

    def keep(self, batch: Batch) -> None:
        """Stores a batch about a nested run; waits for it where the durability asks for that."""
        ...

    async def akeep(self, batch: Batch) -> None:
        """`keep` for async code."""
        ...

    def release_slot(self, frame: Frame) -> None:
        """A frame makes a call: it may begin to wait, so another piece of code may start."""
        ...


@slotted
class Options:
    """How a run is to be carried out, as the caller and the workflow said."""

    durability: str = "sync"
    on_busy: str = "reject"
    on_divergence: str = "error"
    interrupt_before: Sequence[str] | str = ()
    interrupt_after: Sequence[str] | str = ()
    recursion_limit: int = DEFAULT_RECURSION_LIMIT
    max_concurrency: int | None = None
    step_timeout: float | None = None


@slotted(eq=False)
class Run:
    """One run of a program, on a thread when there is a saver."""

    program: Program
    input: Any
    config: RunnableConfig
    """Merged from the workflow's, the surrounding run's and the caller's."""
    options: Options
    saver: NativeSaver | None = None
    thread_id: str | None = None
    ns: str = ""
    checkpoint_id_asked: str | None = None
    """The checkpoint that the caller addressed."""
    context: Any = None
    store: Any = None
    cache: Any = None
    sink: Sink = DEAF
    stream_ns: tuple[str, ...] = ()
    output_keys: str | Sequence[str] = ()
    control: RunControl = field(default_factory=RunControl)
    own_control: bool = True
    """The control was given for this run; a drain asked of it is this run's to report."""
    server_info: ServerInfo | None = None
    run_id: str | None = None
    parent: Frame | None = None
    """The code that called this workflow, when it is nested in a run."""
    continues: bool = False
    """A nested run that had begun in an earlier run of the same superstep above."""
    stateful: bool = False
    """A nested run that keeps its state between calls."""
    announcements: Sequence[Record] = ()
    """What is recorded of this run at the run above, together with its first own batch."""
    clock: Callable[[], float] = time.time
    clock_ns: Callable[[], int] = time.time_ns

    state: State = field(init=False)
    step: int = field(init=False, default=-1)
    stop: int = field(init=False, default=0)
    checkpoint_id: str = field(init=False, default="")
    parent_id: str | None = field(init=False, default=None)
    """The checkpoint before the current one."""
    metadata: Mapping[str, Any] = field(init=False, default_factory=_nothing)
    tasks: list[Task] = field(init=False)
    hold: Hold = field(init=False)
    journal: Journal = field(init=False, default=_NO_JOURNAL)
    ledger_: Ledger | None = field(init=False, default=None)
    answers_: Answers | None = field(init=False, default=None)
    previous: Any = field(init=False, default=None)
    paused_view: Mapping[str, Any] | None = field(init=False, default=None)
    """The channels at a pause, with what finished beside the paused tasks."""
    owed: Sequence[Record] = field(init=False, default=())
    """Records of the superstep that go with its checkpoint, and are not handed over yet."""
    unsaid: Sequence[Task] = field(init=False, default=())
    """Tasks whose end is not told yet, because it is not on record."""
    carried: Mapping[str, Any] = field(init=False, default_factory=_nothing)
    """Values of channels that this program does not have, kept as they are."""
    limits: bool = field(init=False, default=False)
    """Some code of the run, or around it, has a time limit."""
    unsaved: frozenset[str] = field(init=False, default=frozenset())
    """Channels that changed since the last checkpoint."""
    closing: BaseException | None = field(init=False, default=None)
    """The signal that ends all user code of the run."""
    failure: BaseException | None = field(init=False, default=None)
    """What went wrong behind the loop's back: a save that failed."""
    interrupts: Sequence[Interrupt] = field(init=False, default=())
    """Questions that the run ended with."""
    paused: bool = field(init=False, default=False)
    """The run ended at a question or at a breakpoint."""
    resuming: bool = field(init=False, default=False)
    reruns: bool = field(init=False, default=False)
    """Paused tasks are asked again, even without a new answer."""
    guest: Guest | None = field(init=False, default=None)
    """Another framework that is told of the run, where one is loaded."""
    world: World = field(init=False)
    tell: Report = field(init=False)
    extra_metadata: Mapping[str, Any] = field(init=False, default_factory=_nothing)

    def __post_init__(self) -> None:
        self.tell = Report(self)
        if self.parent is not None:
            self.limits = self.parent.run.limits

    def close(self) -> None:
        """Lets go of who drove the run, so that nothing of it waits for the garbage collector."""
        del self.world, self.tell

    @property
    def ledger(self) -> Ledger:
        """What is recorded of this superstep's calls; there is none until somebody asks."""
        ledger = self.ledger_
        if ledger is None:
            with _making:
                ledger = self.ledger_ = self.ledger_ or Ledger()
        return ledger

    @property
    def answers(self) -> Answers:
        """The answers given in this superstep of the root run; as the ledger, made when asked for."""
        if self.parent is not None:
            return self.parent.run.answers
        answers = self.answers_
        if answers is None:
            with _making:
                answers = self.answers_ = self.answers_ or Answers(digest_of)
        return answers

    @property
    def on_divergence(self) -> str:
        return self.options.on_divergence

    @property
    def recast_ns(self) -> str:
        """The namespace by which a Command may address this graph."""
        return recast(self.ns)

    @property
    def graph_names(self) -> tuple[str, ...]:
        """Names by which a Command from below may address this graph."""
        names = [self.program.name]
        if self.parent is not None:
            names.append(self.parent.name)
        return tuple(names)

    @property
    def ancestors(self) -> dict[str, str]:
        """Namespace -> checkpoint id of the graphs above this one."""
        if self.parent is None or self.saver is None:
            return {}
        above = self.parent.run
        return {**above.ancestors, above.ns: above.checkpoint_id}

    def next_version(self, number: int) -> Any:
        """The version for channels that change now: our own savers' is the checkpoint's number."""
        give = None if self.saver is None else getattr(self.saver, "version_after", None)
        return number if give is None else give(self.state.versions)

    def digest(self, action: Action, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Digest of a call's arguments, injected ones left out; empty where nothing is recorded."""
        if self.saver is None:
            return ""
        if action.inject and kwargs:
            injected = {name for name, _ in action.inject}
            kwargs = {key: value for key, value in kwargs.items() if key not in injected}
        return digest_of((args, sorted(kwargs.items()) if kwargs else ()))

    @property
    def shown(self) -> Mapping[str, BaseChannel[Any, Any, Any]]:
        """The channels that the caller's result is read from."""
        return self.state.channels if self.paused_view is None else self.paused_view

    def view(self, writes: Sequence[Write]) -> Mapping[str, BaseChannel[Any, Any, Any]]:
        """The channels as one task sees them: with its own writes, without its siblings'."""
        fresh: dict[str, list[Any]] = {}
        for key, value in writes:
            if key in self.state.channels:
                fresh.setdefault(key, []).append(value)
        channels = dict(self.state.channels)
        for key, values in fresh.items():
            channels[key] = channels[key].copy()
            channels[key].update(values)
        return channels

    def custom_writer(self, chunk: Any) -> None:
        """Writes to the `custom` stream; works from any thread."""
        if self.sink.custom:
            self.sink.emit(self.stream_ns, "custom", chunk)

    def config_of(self, frame: Frame) -> RunnableConfig:
        """The config that the code of a frame sees, and that what it calls inherits."""
        config: dict[str, Any] = dict(self.config)
        config.pop("run_id", None)
        config.pop("run_name", None)
        task = frame
        while task.caller is not None:
            task = task.caller
        node = task.task.node if task.task is not None else None
        triggers = task.task.triggers if task is frame and task.task is not None else ("__pregel_push",)
        metadata = {
            **(config.get("metadata") or {}),
            "langgraph_step": self.step,
            "langgraph_node": frame.name,
            "langgraph_triggers": triggers,
            "langgraph_path": frame.path,
            "langgraph_checkpoint_ns": frame.ns,
        }
        if node is not None:
            metadata.update(node.metadata)
            if node.tags:
                config["tags"] = [*(config.get("tags") or ()), *node.tags]
        configurable = dict(config.get("configurable") or {})
        configurable["checkpoint_ns"] = frame.ns
        if self.thread_id is not None:
            configurable["thread_id"] = self.thread_id
        configurable.pop("checkpoint_id", None)
        config["metadata"] = {**_traced(configurable), **metadata}
        config["configurable"] = configurable
        return config  # type: ignore[return-value]

    def traced_metadata(self) -> dict[str, Any]:
        """The metadata under which traces show the run itself."""
        return {**_traced(self.config.get("configurable") or {}), **(self.config.get("metadata") or {})}

    def own_config(self, checkpoint_id: str) -> dict[str, Any]:
        """The config that addresses a checkpoint of this run."""
        return {
            "configurable": {
                "thread_id": self.thread_id,
                "checkpoint_ns": self.ns,
                "checkpoint_id": checkpoint_id,
            }
        }


def _traced(configurable: Mapping[str, Any]) -> dict[str, Any]:
    return {key: configurable[key] for key in _TRACED if key in configurable}
