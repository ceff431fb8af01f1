"""How a node's input is read from the channels: closures made once, at compile time."""

from __future__ import annotations

from typing import Any

from perdure.engine.program import Channels, Read
from perdure.graph.names import ROOT
from perdure.graph.schema import Schema
from perdure.managed.base import Steps


def reader(schema: Schema) -> Read:
    """Reads what `schema` names: the bare value, or a dict of the keys that have a value."""
    if schema.is_root:
        return _read_root
    return _with_managed(schema) if schema.managed else _of_keys(schema.keys)


def _read_root(channels: Channels, steps: Steps) -> Any:
    return channels[ROOT].get()


def _of_keys(keys: tuple[str, ...]) -> Read:
    def read(channels: Channels, steps: Steps) -> dict[str, Any]:
        values = {}
        for key in keys:
            channel = channels[key]
            if channel.is_available():
                values[key] = channel.get()
        return values

    return read


def _with_managed(schema: Schema) -> Read:
    stored = _of_keys(schema.keys)
    computed = tuple((key, value.get) for key, value in schema.managed.items())

    def read(channels: Channels, steps: Steps) -> dict[str, Any]:
        values: dict[str, Any] = stored(channels, steps)
        for key, compute in computed:
            values[key] = compute(steps)
        return values

    return read
