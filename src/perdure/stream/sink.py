"""Who listens to a run, and what they are told.

The engine asks the flags before it computes anything for an event, so that what nobody reads
costs nothing. Events of a run and of the runs nested in it go through one queue, in the order
in which they happen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

Namespace: TypeAlias = tuple[str, ...]
Event: TypeAlias = tuple[Namespace, str, Any]
"""(namespace of the graph, mode, payload)."""

MODES = ("values", "updates", "custom", "messages", "tasks", "checkpoints", "debug", "tools")
"""What a caller of `stream` may ask for."""

EVENT_MODES = ("blocks", "breakpoints", "runs", "recorded")
"""What `stream_events` asks for besides. `blocks`: as `messages`, but a model's output comes as
content-block events (dicts) instead of chunks; messages that are complete come in both.
`breakpoints`: a run stops at a static one. `runs`: a nested run begins, or ends. `recorded`: the
task or call that starts next, by its id, is served from the record."""


class Sink:
    """The listeners of one root run: which modes they want, and the queue they are fed by.

    `depth` is True when events of nested runs are wanted too (`subgraphs=True`).
    """

    __slots__ = (
        "blocks",
        "breakpoints",
        "checkpoints",
        "custom",
        "debug",
        "depth",
        "live",
        "messages",
        "modes",
        "notify",
        "queue",
        "recorded",
        "runs",
        "tasks",
        "tools",
        "updates",
        "values",
    )

    def __init__(self, modes: Iterable[str] = (), depth: bool = False, live: bool = False) -> None:
        wanted = frozenset(modes)
        self.modes = wanted
        self.values = "values" in wanted
        self.updates = "updates" in wanted
        self.custom = "custom" in wanted
        self.messages = "messages" in wanted
        self.blocks = "blocks" in wanted
        self.breakpoints = "breakpoints" in wanted
        self.runs = "runs" in wanted
        self.recorded = "recorded" in wanted
        self.debug = "debug" in wanted
        self.tasks = "tasks" in wanted or self.debug
        self.checkpoints = "checkpoints" in wanted or self.debug
        self.tools = "tools" in wanted
        self.depth = depth
        self.live = live
        """Events are wanted while tasks still run, not only between them."""
        self.queue: deque[Event] = deque()
        self.notify: Callable[[], None] | None = None
        """Set by a driver that waits for events; called from whatever thread emits."""

    def emit(self, ns: Namespace, mode: str, payload: Any) -> None:
        """Queues an event. Safe from any thread; never blocks."""
        self.queue.append((ns, mode, payload))
        if self.notify is not None:
            self.notify()


class Relay(Sink):
    """The listeners of a nested run that its caller streams, and with them those of the runs
    above, who hear of it as well.

    Args:
        own: The caller's.
        above: Those of the run above, which want events of nested runs.
        ns: Namespace of the nested run.
    """

    __slots__ = ("above", "ns", "own")

    def __init__(self, own: Sink, above: Sink, ns: Namespace) -> None:
        super().__init__(own.modes | above.modes, depth=True, live=own.live)
        self.own = own
        self.above = above
        self.ns = ns

    def emit(self, ns: Namespace, mode: str, payload: Any) -> None:
        """Queues an event for all who want it."""
        if mode in self.above.modes:
            self.above.emit(ns, mode, payload)
        if mode in self.own.modes and (self.own.depth or ns == self.ns):
            super().emit(ns, mode, payload)


DEAF = Sink()
"""The sink of a run that nobody watches."""
