"""Chain runs: what LangChain's handlers hear of runs, nodes, tasks and conditional edges.

A visit belongs to one attempt. It is told its moments either on a thread or on an event loop,
and speaks through a manager of that kind.
"""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.callbacks.manager import AsyncCallbackManager, CallbackManager

from perdure.ext.langchain.callbacks import Callbacks, Listener, configured
from perdure.ext.langchain.lifecycle import AsyncGraphCallbacks, GraphCallbacks, graph_handlers, interrupted

if TYPE_CHECKING:
    from uuid import UUID

    from perdure.engine.frame import Frame
    from perdure.ext.langchain.guest import LangChain
    from perdure.ext.langchain.scan import Scan

logger = logging.getLogger("perdure")

Moment = Literal["begin", "end", "fail"]

_OURS = {"ls_integration": "langgraph"}
"""Metadata by which traces tell who made a chain run; the documented value."""


class ChainVisit:
    """One chain run."""

    def __init__(
        self, callbacks: Callbacks, config: Mapping[str, Any], name: str, inputs: Any,
        *, tags: tuple[str, ...] = (), run_id: UUID | None = None,
    ) -> None:  # fmt: skip
        self.callbacks = callbacks
        self.config = config
        self.name = name
        self.inputs = inputs
        self.tags = tags
        self.run_id = run_id
        self.chain: Any = None

    def tell(self, moment: Moment, value: Any = None) -> None:
        """Reports a moment to the handlers, on this thread."""
        if moment == "begin":
            manager = configured(CallbackManager, self.callbacks, self.config, tags=self.tags, metadata=_OURS)
            self.begun(manager.on_chain_start(cast("Any", None), self.inputs, self.run_id, name=self.name))
        elif self.chain is None:
            return  # A handler that may break runs has broken this one at its beginning.
        elif moment == "end":
            self.tapped(value)
            self.chain.on_chain_end(value)
        else:
            self.chain.on_chain_error(value)

    async def atell(self, moment: Moment, value: Any = None) -> None:
        """Reports a moment to the handlers, on the event loop."""
        if moment == "begin":
            manager = configured(
                AsyncCallbackManager, self.callbacks, self.config, tags=self.tags, metadata=_OURS
            )
            self.begun(
                await manager.on_chain_start(cast("Any", None), self.inputs, self.run_id, name=self.name)
            )
        elif self.chain is None:
            return
        elif moment == "end":
            self.tapped(value)
            await self.chain.on_chain_end(value)
        else:
            await self.chain.on_chain_error(value)

    def begun(self, chain: Any) -> None:
        """What is to be known of the chain run that has begun."""
        self.chain = chain

    def tapped(self, value: Any) -> None:
        """What is shown to handlers that follow outputs in pieces."""


class RunVisit(ChainVisit):
    """The chain run of a workflow's run: its nodes are beneath it."""

    def __init__(self, guest: LangChain, name: str) -> None:
        run = guest.run
        config: dict[str, Any] = dict(run.config)
        super().__init__(
            guest.callbacks, {**config, "metadata": run.traced_metadata()}, config.get("run_name") or name,
            run.input, run_id=config.get("run_id"),
        )  # fmt: skip
        self.guest = guest

    def begun(self, chain: Any) -> None:
        """Nodes are children of this chain run."""
        super().begun(chain)
        self.guest.callbacks = chain.get_child()
        self.guest.run_id = chain.run_id

    def tell(self, moment: Moment, value: Any = None) -> None:
        """Reports a moment to the handlers, on this thread; of a pause before its end."""
        if moment == "end" and self._paused:
            event = interrupted(self.guest.run, self.guest.run_id)
            GraphCallbacks(graph_handlers(self.chain)).on_interrupt(event)
        super().tell(moment, value)

    async def atell(self, moment: Moment, value: Any = None) -> None:
        """Reports a moment to the handlers, on the event loop; of a pause before its end."""
        if moment == "end" and self._paused:
            event = interrupted(self.guest.run, self.guest.run_id)
            await AsyncGraphCallbacks(graph_handlers(self.chain)).on_interrupt(event)
        await super().atell(moment, value)

    @property
    def _paused(self) -> bool:
        return self.guest.run.paused and self.guest.run.parent is None


class FrameVisit:
    """One attempt at a node or a task: a chain run, and a look for messages that it returns."""

    def __init__(self, frame: Frame, callbacks: Callbacks, scan: Scan | None) -> None:
        self.frame = frame
        self.scan = scan
        self.chain = _FrameChain(frame, callbacks) if callbacks is not None else None

    def tell(self, moment: Moment, value: Any = None) -> None:
        """Reports a moment to the handlers, on this thread."""
        self._look(moment, value)
        if self.chain is not None:
            self.chain.tell(moment, value)

    async def atell(self, moment: Moment, value: Any = None) -> None:
        """Reports a moment to the handlers, on the event loop."""
        self._look(moment, value)
        if self.chain is not None:
            await self.chain.atell(moment, value)

    def _look(self, moment: Moment, value: Any) -> None:
        if self.scan is not None and moment == "end":
            self.scan.show(value)


class _FrameChain(ChainVisit):
    def __init__(self, frame: Frame, callbacks: Callbacks) -> None:
        tags = (f"graph:step:{frame.run.step}",) if frame.task is not None else ()
        super().__init__(callbacks, cast("Any", frame.config), frame.name, _inputs(frame), tags=tags)
        self.frame = frame

    def begun(self, chain: Any) -> None:
        """What the frame's code calls is beneath its chain run."""
        super().begun(chain)
        self.frame.config_ = cast("Any", {**self.frame.config, "callbacks": chain.get_child()})

    def tapped(self, value: Any) -> None:
        """A node's output is one piece."""
        for handler in self.chain.handlers:
            tap = getattr(handler, "tap_output_iter", None)
            if tap is None or isinstance(handler, Listener):
                continue
            try:
                deque(tap(self.chain.run_id, iter((value,))), maxlen=0)
            except Exception as error:
                logger.warning("the handler %r failed on the output of %r: %r", handler, self.name, error)


class BranchVisit(ChainVisit):
    """The chain run of a conditional edge. It lasts until the next one begins, or the node ends."""

    def __init__(self, frame: Frame, callbacks: Callbacks, name: str, argument: Any) -> None:
        super().__init__(callbacks, cast("Any", frame.config), name, argument)
        self.frame = frame

    def begun(self, chain: Any) -> None:
        """What the edge's function calls is beneath its chain run."""
        super().begun(chain)
        self.frame.config_ = cast("Any", {**self.config, "callbacks": chain.get_child()})


def _inputs(frame: Frame) -> Any:
    """A node's input; a call's arguments by name."""
    if frame.task is not None:
        return frame.args[0]
    try:
        return dict(inspect.signature(frame.action.fn).bind_partial(*frame.args, **frame.kwargs).arguments)
    except (TypeError, ValueError):
        return {"args": frame.args, **frame.kwargs}
