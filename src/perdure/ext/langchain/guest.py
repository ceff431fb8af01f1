"""What LangChain is told of one run, and what the run's user code finds around it.

LangChain keeps the config of the code that runs in a context variable: models, tools and
Runnables take callbacks, tags and metadata from there. The guest puts each frame's config into
it, with callbacks that make what the code calls a child of the frame's chain run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from langchain_core.callbacks.manager import CallbackManager
from langchain_core.runnables.config import RunnableConfig, _set_config_context, var_child_runnable_config

from perdure.ext.langchain.callbacks import Callbacks, Listener, configured, quiet, traces, with_listeners
from perdure.ext.langchain.lifecycle import ResumeVisit, graph_handlers
from perdure.ext.langchain.pulse import Pulse, with_pulse
from perdure.ext.langchain.scan import Shown, scan_of
from perdure.ext.langchain.streaming import listeners_of
from perdure.ext.langchain.visits import BranchVisit, FrameVisit, RunVisit

if TYPE_CHECKING:
    from uuid import UUID

    from perdure.engine.frame import Frame
    from perdure.engine.live import Run
    from perdure.engine.program import Branch


def surrounding_config() -> Mapping[str, Any]:
    """The config of the LangChain code that runs here, as what it calls inherits it."""
    return cast("Mapping[str, Any]", var_child_runnable_config.get() or {})


class LangChain:
    """The guest's companion of one run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.shown = _shown(run)
        self.listeners: list[Listener] = listeners_of(run, self.shown)
        self.callbacks: Callbacks = with_listeners(run.config.get("callbacks"), self.listeners)
        """Under which the run's nodes are; once the run is visited, beneath its chain run."""
        self.run_id: UUID | None = None
        """Of the run's chain run, once it has begun."""

    def visit_run(self, name: str) -> RunVisit | None:
        """A chain run for the run; None when no handler wants to hear of it."""
        config = self.run.config
        if not traces(configured(CallbackManager, self.callbacks, config)):
            return None
        return RunVisit(self, name)

    def visit_resume(self) -> ResumeVisit | None:
        """The run goes on from where its thread stopped; None when no handler wants to hear of it."""
        handlers = graph_handlers(self.callbacks)
        return ResumeVisit(self.run, handlers, self.run_id) if handlers else None

    def visit(self, frame: Frame) -> FrameVisit | None:
        """Makes the frame's config; a visit where handlers listen or messages are looked for."""
        if frame.task is not None and frame.task.node.hidden:
            return None
        config = cast("dict[str, Any]", self.run.config_of(frame))
        frame.config_ = cast("Any", config)
        callbacks, listeners = self._above(frame), self.listeners
        if self.run.limits:
            pulse = Pulse(frame.sign_of_life)
            callbacks, listeners = with_pulse(callbacks, pulse), [*listeners, pulse]
        traced = traces(callbacks)
        if listeners and not traced:
            config["callbacks"] = quiet(listeners, config)
        elif callbacks is not None:
            config["callbacks"] = callbacks
        scan = scan_of(frame, self.shown)
        return FrameVisit(frame, callbacks if traced else None, scan) if traced or scan is not None else None

    def _above(self, frame: Frame) -> Callbacks:
        """The callbacks under which a frame is: the run's for a node, its caller's for a call."""
        around = var_child_runnable_config.get() if frame.caller is not None else None
        return self.callbacks if around is None else around.get("callbacks")

    def visit_branch(self, frame: Frame, branch: Branch, argument: Any) -> BranchVisit | None:
        """A chain run for a conditional edge, beneath its node's."""
        callbacks = cast("Callbacks", frame.config.get("callbacks"))
        return BranchVisit(frame, callbacks, branch.name, argument) if traces(callbacks) else None

    def put(self, frame: Frame) -> None:
        """Sets LangChain's config variable, and the parent for traces, for the frame's code."""
        if frame.task is not None and frame.task.node.hidden:
            return
        # LangChain fills in a limit of 25 where there is none, and workflows called by its code get it.
        limit = self.run.options.recursion_limit
        config = cast("RunnableConfig", {"recursion_limit": limit, **frame.config})
        if getattr(config.get("callbacks"), "parent_run_id", None) is None:
            var_child_runnable_config.set(config)
        else:
            _set_config_context(config)

    def saw(self, message_id: str | None) -> None:
        """A message that user code showed itself is not shown once more when it is returned."""
        if message_id is not None:
            self.shown.add(message_id)


def _shown(run: Run) -> Shown:
    """The ids of messages that the run's listeners have had; those above know what they hear from here."""
    above = run.parent.run if run.parent is not None else None
    if above is None or not isinstance(above.guest, LangChain):
        return Shown()
    if above.sink is run.sink:
        return above.guest.shown
    return Shown(above.guest.shown if above.sink.depth else None)
