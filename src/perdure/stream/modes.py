"""The shapes in which `stream` hands events out: which modes there are, v1 and v2 items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from perdure.stream.sink import EVENT_MODES, MODES, Event

Shape = Callable[[Event], Any]
"""An event -> the item that a consumer gets."""

_EAGER = frozenset(("updates", "custom", "messages", "tasks", "debug", "tools", "blocks"))


def checked_modes(given: str | Sequence[str]) -> tuple[str, ...]:
    """The modes a caller asked for. Raises ValueError for an unknown one."""
    modes = (given,) if isinstance(given, str) else tuple(given)
    for mode in modes:
        if mode not in MODES and mode not in EVENT_MODES:
            raise ValueError(f"unknown stream mode {mode!r}; valid modes are {', '.join(MODES)}")
    return modes


def is_live(modes: Iterable[str], *, depth: bool) -> bool:
    """True when items are due while tasks still run, not only between supersteps."""
    return depth or not _EAGER.isdisjoint(modes)


def shape_v1(several: bool, depth: bool) -> Shape:
    """Items as `payload`, `(mode, payload)`, `(ns, payload)` or `(ns, mode, payload)`."""
    if several and depth:
        return lambda event: event
    if several:
        return lambda event: (event[1], event[2])
    if depth:
        return lambda event: (event[0], event[2])
    return lambda event: event[2]


def shape_v2(
    output: Callable[[Any], Any] | None, state: Callable[[Any], Any] | None, own: tuple[str, ...]
) -> Shape:
    """Items as dicts with `type`, `ns`, `data`, and `interrupts` for values.

    Args:
        output: Turns the values of the graph at namespace `own` into its output schema's class.
        state: The same for the state in a checkpoint.
    """

    def shape(event: Event) -> dict[str, Any]:
        ns, mode, payload = event
        part: dict[str, Any] = {"type": mode, "ns": ns, "data": payload}
        if mode == "values":
            part["interrupts"] = ()
            if isinstance(payload, dict) and "__interrupt__" in payload:
                part["interrupts"] = payload["__interrupt__"]
                part["data"] = payload = {k: v for k, v in payload.items() if k != "__interrupt__"}
            if ns == own and output is not None and isinstance(payload, dict):
                part["data"] = output(payload)
        elif mode == "checkpoints" and ns == own and state is not None:
            part["data"] = _with_state(payload, state)
        elif mode == "debug" and payload["type"] == "checkpoint" and ns == own and state is not None:
            part["data"] = {**payload, "payload": _with_state(payload["payload"], state)}
        return part

    return shape


def _with_state(payload: dict[str, Any], state: Callable[[Any], Any]) -> dict[str, Any]:
    if "__start__" in payload["next"] or not isinstance(payload["values"], dict):
        return payload
    return {**payload, "values": state(payload["values"])}


def printer(modes: Sequence[str], depth: bool) -> Callable[[Event], None]:
    """Prints the events of these modes as they pass."""

    def show(event: Event) -> None:
        ns, mode, payload = event
        if mode in modes:
            where = f"\x1b[33m[graph={ns!r}]\x1b[0m " if depth and ns else ""
            print(f"\x1b[1m[{mode}]\x1b[0m {where}{payload!r}")

    return show
