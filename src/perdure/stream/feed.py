"""From items of `stream(version="v2")` to a router's events; without I/O.

The engine tells more than the protocol has methods for: `breakpoints` when a run stops at a
static one, `runs` when a nested run begins and ends, `recorded` when what starts next is on
record. Those reach the transformers as notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from perdure.stream.protocol import ProtocolEvent, to_protocol_event
from perdure.stream.result import Result
from perdure.stream.router import EventRouter

BASE_MODES: tuple[str, ...] = ("values", "blocks", "tasks", "breakpoints", "runs")
NOTES = frozenset(("breakpoints", "runs", "recorded"))
"""Modes that the protocol has no events for."""

Note: TypeAlias = tuple[str, tuple[str, ...], Any]
_MODE_OF_METHOD = {"messages": "blocks"}


def modes_for(router: EventRouter) -> list[str]:
    """The modes that a router's transformers need."""
    wanted: dict[str, None] = dict.fromkeys(BASE_MODES)
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
        self._moved = False

    def take(self, part: Mapping[str, Any]) -> ProtocolEvent:
        """The event for an item."""
        ns: tuple[str, ...] = part["ns"]
        if self._own is None:
            self._own = ns
            self._moved = ns != self.router.scope
        if self._moved:
            part = {**part, "ns": self._placed(ns)}
        event = to_protocol_event(part)
        self.result.observe(event)
        return event

    def _placed(self, ns: tuple[str, ...]) -> tuple[str, ...]:
        assert self._own is not None
        return (*self.router.scope, *ns[len(self._own) :])

    def note(self, part: Mapping[str, Any]) -> Note:
        """What the engine tells beside the protocol."""
        mode, ns, data = part["type"], part["ns"], part["data"]
        if self._moved:
            ns = self._placed(ns)
            if mode == "runs" and data["event"] == "started":
                data = {**data, "parent": self._placed(data["parent"])}
        self.result.note(mode, ns)
        return mode, ns, data
