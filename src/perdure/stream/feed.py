"""From items of `stream(version="v2")` to a router's events; without I/O.

The engine tells more than the protocol has methods for: `breakpoints` when a run stops at a
static one, `runs` when a nested run begins and ends. Those reach the transformers as notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.stream.protocol import ProtocolEvent, to_protocol_event
from perdure.stream.result import Result
from perdure.stream.router import EventRouter

BASE_MODES = ("values", "blocks", "tasks", "breakpoints", "runs")
_MODE_OF_METHOD = {"messages": "blocks"}


def modes_for(router: EventRouter) -> list[str]:
    """The modes that a router's transformers need."""
    wanted = dict.fromkeys(BASE_MODES)
    for transformer in router.transformers:
        for mode in transformer.required_stream_modes:
            wanted[_MODE_OF_METHOD.get(mode, mode)] = None
    return list(wanted)


class Feed:
    """Takes a run's items, keeps its result, and gives the events for its router.

    A run that is called again within one task has a number at the end of its namespace; here it
    is told at the level of the code that called it, which is the router's scope.
    """

    def __init__(self, router: EventRouter, result: Result) -> None:
        self.router = router
        self.result = result
        self._own: tuple[str, ...] | None = None

    def take(self, part: Mapping[str, Any]) -> ProtocolEvent | None:
        """The event for an item; None for one that the protocol does not have."""
        ns: tuple[str, ...] = part["ns"]
        if self._own is None:
            self._own = ns
        scope = self.router.scope
        if self._own != scope and ns[: len(self._own)] == self._own:
            ns = (*scope, *ns[len(self._own) :])
            part = {**part, "ns": ns}
        if part["type"] in ("breakpoints", "runs"):
            self._note(part["type"], ns, part["data"])
            return None
        event = to_protocol_event(part)
        self.result.observe(event)
        return event

    def _note(self, mode: str, ns: tuple[str, ...], data: Any) -> None:
        if mode == "breakpoints" and ns == self.router.scope:
            self.result.interrupted = True
        self.router.note(mode, ns, data)
