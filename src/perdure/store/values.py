"""Values of a store are JSON, in every store: what works in memory works on disk."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from perdure.errors import UnstorableError

Path: TypeAlias = tuple[str | int, ...]


def json_copy(value: Any, path: Path = ()) -> Any:
    """The value as JSON would give it back: an independent copy, tuples as lists.

    Raises UnstorableError, which names the place, for what JSON has no form for.
    """
    match value:
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float():
            if not math.isfinite(value):
                raise _unstorable(value, path, "JSON has no such number")
            return float(value)
        case list() | tuple():
            return [json_copy(item, (*path, at)) for at, item in enumerate(value)]
        case Mapping():
            return {_key(key, path): json_copy(item, (*path, key)) for key, item in value.items()}
    raise _unstorable(value, path, "a store keeps JSON values: convert it first")


def value_copy(value: Any) -> dict[str, Any]:
    """The same for a whole item's value, which is a dict."""
    if not isinstance(value, Mapping):
        raise TypeError(f"a store keeps dicts; got {value!r}, a {type(value).__name__}")
    copy: dict[str, Any] = json_copy(value)
    return copy


def _key(key: Any, path: Path) -> str:
    if not isinstance(key, str):
        raise _unstorable(key, path, "keys of a stored dict must be strings")
    return key


def _unstorable(value: Any, path: Path, why: str) -> UnstorableError:
    type_name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    where = "".join(f"[{part!r}]" for part in path)
    return UnstorableError(
        f"value{where} is {value!r}, a {type_name}, which cannot be stored: {why}",
        path=path,
        type_name=type_name,
    )
