"""Events as the v3 protocol writes them: plain dicts that any consumer, near or far, can read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class ProtocolParams(TypedDict):
    """Where and when something happened, and what."""

    namespace: list[str]
    timestamp: int
    """Milliseconds since the epoch."""
    data: Any
    interrupts: NotRequired[tuple[Any, ...]]
    """On `values` only: the questions that the graph is paused on."""


class ProtocolEvent(TypedDict):
    """One event of a run."""

    type: Literal["event"]
    method: str
    """A stream mode, `lifecycle`, the name of a projection's channel, or `custom:<channel>`."""
    params: ProtocolParams
    seq: NotRequired[int]
    """Place in the main log of the root run, from 1."""
    event_id: NotRequired[str]


_METHODS: Mapping[str, str] = {"blocks": "messages"}
"""Modes that the engine tells apart and the protocol does not."""


def to_protocol_event(part: Mapping[str, Any]) -> ProtocolEvent:
    """The event for an item of `stream(version="v2")`, without `seq`."""
    mode: str = part["type"]
    params: ProtocolParams = {
        "namespace": list(part["ns"]),
        "timestamp": time.time_ns() // 1_000_000,
        "data": part["data"],
    }
    if "interrupts" in part:
        params["interrupts"] = part["interrupts"]
    method: str = _METHODS.get(mode, mode)
    return {"type": "event", "method": method, "params": params}


def channel_event(method: str, item: Any) -> ProtocolEvent:
    """The event by which an item of a named channel shows in the main log."""
    params: ProtocolParams = {"namespace": [], "timestamp": time.time_ns() // 1_000_000, "data": item}
    return {"type": "event", "method": method, "params": params}
