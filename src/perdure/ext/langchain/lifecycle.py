"""Pauses and resumes of graphs, for LangChain handlers that want to hear of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import UUID

from langchain_core.callbacks.base import BaseCallbackHandler
from langchain_core.callbacks.manager import ahandle_event, handle_event

from perdure.types import Interrupt

if TYPE_CHECKING:
    from perdure.engine.live import Run

GraphLifecycleStatus: TypeAlias = Literal[
    "input", "pending", "done", "interrupt_before", "interrupt_after", "out_of_steps"
]


@dataclass(frozen=True)
class GraphInterruptEvent:
    """A run has ended at questions, or at a breakpoint."""

    run_id: UUID | None
    """Of the run, as other callbacks name it."""
    status: GraphLifecycleStatus
    """`pending` at questions; `interrupt_before` and `interrupt_after` at breakpoints."""
    checkpoint_id: str
    checkpoint_ns: tuple[str, ...]
    interrupts: tuple[Interrupt, ...]


@dataclass(frozen=True)
class GraphResumeEvent:
    """A graph goes on from where its thread stopped."""

    run_id: UUID | None
    status: GraphLifecycleStatus
    checkpoint_id: str
    checkpoint_ns: tuple[str, ...]


GraphLifecycleEvent: TypeAlias = GraphInterruptEvent | GraphResumeEvent


class GraphCallbackHandler(BaseCallbackHandler):
    """A handler that hears of pauses and resumes besides; give it in `config["callbacks"]`.

    The methods may be coroutines. Their errors are logged and break no run, unless `raise_error`.
    """

    def on_interrupt(self, event: GraphInterruptEvent) -> Any:
        """The root run has paused."""

    def on_resume(self, event: GraphResumeEvent) -> Any:
        """A graph goes on, the root's or a nested one."""


class GraphCallbacks:
    """Tells the handlers of pauses and resumes."""

    def __init__(self, handlers: Sequence[GraphCallbackHandler], run_id: UUID | None = None) -> None:
        self.handlers = list(handlers)
        self.run_id = run_id

    def on_interrupt(self, event: GraphInterruptEvent) -> None:
        """Tells of a pause."""
        _tell(self.handlers, "on_interrupt", event)

    def on_resume(self, event: GraphResumeEvent) -> None:
        """Tells of a resume."""
        _tell(self.handlers, "on_resume", event)


class AsyncGraphCallbacks:
    """`GraphCallbacks` on an event loop."""

    def __init__(self, handlers: Sequence[GraphCallbackHandler], run_id: UUID | None = None) -> None:
        self.handlers = list(handlers)
        self.run_id = run_id

    async def on_interrupt(self, event: GraphInterruptEvent) -> None:
        """Tells of a pause."""
        await _atell(self.handlers, "on_interrupt", event)

    async def on_resume(self, event: GraphResumeEvent) -> None:
        """Tells of a resume."""
        await _atell(self.handlers, "on_resume", event)


def get_sync_graph_callback_manager_for_config(
    config: Mapping[str, Any], *, run_id: UUID | None = None
) -> GraphCallbacks:
    """The handlers of a config that hear of pauses and resumes."""
    return GraphCallbacks(graph_handlers(config.get("callbacks")), run_id)


def get_async_graph_callback_manager_for_config(
    config: Mapping[str, Any], *, run_id: UUID | None = None
) -> AsyncGraphCallbacks:
    """`get_sync_graph_callback_manager_for_config` for async callers."""
    return AsyncGraphCallbacks(graph_handlers(config.get("callbacks")), run_id)


def graph_handlers(callbacks: Any) -> list[GraphCallbackHandler]:
    """Those of the callbacks that hear of pauses and resumes."""
    handlers = callbacks if isinstance(callbacks, list) else getattr(callbacks, "handlers", ())
    return [handler for handler in handlers if isinstance(handler, GraphCallbackHandler)]


def interrupted(run: Run, run_id: UUID | None) -> GraphInterruptEvent:
    """What is told of a root run that has paused."""
    status: GraphLifecycleStatus = "pending"
    if not run.interrupts:
        status = "interrupt_before" if run.tasks else "interrupt_after"
    return GraphInterruptEvent(run_id, status, run.checkpoint_id, run.stream_ns, tuple(run.interrupts))


class ResumeVisit:
    """Tells that a run goes on from where its thread stopped."""

    def __init__(self, run: Run, handlers: Sequence[GraphCallbackHandler], run_id: UUID | None) -> None:
        self.handlers = handlers
        self.event = GraphResumeEvent(run_id, "pending", run.checkpoint_id, run.stream_ns)

    def tell(self, moment: str, value: Any = None) -> None:
        """Reports the moment to the handlers, on this thread."""
        _tell(self.handlers, "on_resume", self.event)

    async def atell(self, moment: str, value: Any = None) -> None:
        """Reports the moment to the handlers, on the event loop."""
        await _atell(self.handlers, "on_resume", self.event)


def _tell(handlers: Sequence[GraphCallbackHandler], name: str, event: GraphLifecycleEvent) -> None:
    handle_event(list(handlers), name, None, event)


async def _atell(handlers: Sequence[GraphCallbackHandler], name: str, event: GraphLifecycleEvent) -> None:
    await ahandle_event(list(handlers), name, None, event)
