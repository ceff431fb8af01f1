"""The shapes in which `stream` hands events out: which modes there are, v1 and v2 items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_origin

from perdure.stream.sink import EVENT_MODES, MODES, Event, Namespace

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


def shape_v2(event: Event) -> dict[str, Any]:
    """Items as dicts with `type`, `ns`, `data`, and `interrupts` for values.

    Values of a graph whose schema is a class come as instances of it, once all that the class
    needs is there.
    """
    ns, mode, payload = event
    part: dict[str, Any] = {"type": mode, "ns": ns, "data": payload}
    if mode == "values":
        part["interrupts"] = ()
        if isinstance(payload, dict) and "__interrupt__" in payload:
            part["interrupts"] = payload["__interrupt__"]
            part["data"] = {k: v for k, v in payload.items() if k != "__interrupt__"}
    if isinstance(ns, TypedNamespace):
        part["ns"] = tuple(ns)
        if mode == "values":
            part["data"] = ns.output(part["data"])
        elif mode == "checkpoints":
            part["data"] = _with_state(payload, ns.state)
        elif mode == "debug" and payload["type"] == "checkpoint":
            part["data"] = {**payload, "payload": _with_state(payload["payload"], ns.state)}
    return part


def _with_state(payload: dict[str, Any], state: Callable[[Any], Any]) -> dict[str, Any]:
    return payload if "__start__" in payload["next"] else {**payload, "values": state(payload["values"])}


class TypedNamespace(tuple[str, ...]):
    """The namespace of a graph whose schemas are classes, with what makes instances of them."""

    output: Callable[[Any], Any]
    state: Callable[[Any], Any]

    @classmethod
    def of(cls, ns: Namespace, program: Any) -> Namespace:
        """The namespace for the events of a program's run."""
        if program.output_mapper is None and program.state_mapper is None:
            return ns
        typed = cls(ns)
        typed.output = _once_whole(program.output_mapper, program.schemas.get("output"))
        typed.state = _once_whole(program.state_mapper, program.schemas.get("state"))
        return typed


def _once_whole(mapper: Callable[[Any], Any] | None, schema: Any) -> Callable[[Any], Any]:
    """The mapper for dicts that have every key that the schema's class needs; others stay dicts."""
    if mapper is None:
        return lambda values: values
    needed = _needed(schema)
    return lambda values: mapper(values) if isinstance(values, dict) and needed <= values.keys() else values


def _needed(schema: Any) -> frozenset[str]:
    """The keys without which an instance of a class cannot be made."""
    cls = get_origin(schema) or schema
    model_fields = getattr(cls, "model_fields", None)
    if isinstance(model_fields, dict):
        return frozenset(name for name, field in model_fields.items() if field.is_required())
    import dataclasses  # Loaded by whoever made such a class.

    if not dataclasses.is_dataclass(cls):
        return frozenset()
    missing = dataclasses.MISSING
    return frozenset(
        field.name
        for field in dataclasses.fields(cls)
        if field.init and field.default is missing and field.default_factory is missing
    )


BATCHES = "batches"
"""A version of items for run objects, who hand them out one by one: as "v2", but what is there
already comes together, in lists."""

_MANY = frozenset(("blocks", "messages", "custom"))
"""Modes of which there are many events, and in which no user code has a part in their shape."""

_BATCH = 64
"""Items that come together at most: code that tells more while they are taken would otherwise keep
them from their reader for as long as it goes on."""


def shape_for(version: str, *, several: bool, depth: bool, waiting: deque[Event] | None) -> Shape:
    """The shape of a version's items.

    Args:
        several: A list of modes was asked for.
        waiting: The events behind the one that is shaped; None where each is to pass by itself.
    """
    if version == BATCHES and waiting is not None:
        return _in_batches(waiting)
    return shape_v1(several, depth) if version == "v1" else shape_v2


def _in_batches(queue: deque[Event]) -> Shape:
    """Items as lists: an event, and those of frequent modes that wait behind it in the queue."""

    def shape(event: Event) -> list[dict[str, Any]]:
        items = [shape_v2(event)]
        while queue and queue[0][1] in _MANY and len(items) < _BATCH:
            items.append(shape_v2(queue.popleft()))
        return items

    return shape


def printer(modes: Sequence[str], depth: bool) -> Callable[[Event], None]:
    """Prints the events of these modes as they pass."""

    def show(event: Event) -> None:
        ns, mode, payload = event
        if mode in modes:
            where = f"\x1b[33m[graph={ns!r}]\x1b[0m " if depth and ns else ""
            print(f"\x1b[1m[{mode}]\x1b[0m {where}{payload!r}")

    return show
