"""Where inside a value lies what cannot be stored. A slow second look, taken on failure only."""

from __future__ import annotations

import sys
from collections import ChainMap, defaultdict, deque
from collections.abc import Iterator
from types import MappingProxyType, SimpleNamespace
from typing import Any

from perdure.errors import UnstorableError
from perdure.serde.encode import Encoding
from perdure.serde.faults import Refusal, article, type_name
from perdure.serde.registry import Registry
from perdure.serde.shapes import Shape, attributes_of, shape_of

_LONGEST_KEY = 80


def explained(registry: Registry, value: Any, error: Exception) -> Exception:
    """The error to raise for a value whose encoding failed with `error`.

    Ours become an UnstorableError with the path; one that a registered encoder raised is given
    back as it is, with the path as a note.
    """
    path, culprit, found = _locate(registry, value, error)
    if not isinstance(found, Refusal):
        if path:
            found.add_note(f"while storing {path}, {article(type_name(type(culprit)))}")
        return found
    kind = type_name(type(culprit))
    reason = f": {found.reason}" if found.reason else ""
    subject = f"{path}, {article(kind)}," if path else article(kind)
    unstorable = UnstorableError(f"{subject} cannot be stored{reason}", type_name=kind)
    unstorable.path = path
    return unstorable


def _locate(registry: Registry, value: Any, error: Exception) -> tuple[str, Any, Exception]:
    path = ""
    seen = {id(value)}
    while True:
        inside = _first_failing(registry, value)
        if inside is None:
            return path, value, error
        label, value, error = inside
        path += label
        if id(value) in seen:
            return path, value, error
        seen.add(id(value))


def _first_failing(registry: Registry, value: Any) -> tuple[str, Any, Exception] | None:
    for label, child in _children(registry, value):
        failed = _failure(registry, child)
        if failed is not None:
            return label, child, failed
    return None


def _failure(registry: Registry, value: Any) -> Exception | None:
    try:
        Encoding(registry).document(value)
    except Exception as error:
        return error
    return None


def _children(registry: Registry, value: Any) -> Iterator[tuple[str, Any]]:
    """What a value holds, and how one writes the way to it."""
    entry = registry.entry(type(value))
    if entry is not None and entry.encode is not None:
        yield from _encoded(entry.encode, value)
    elif isinstance(value, ChainMap):
        yield from ((f".maps[{number}]", held) for number, held in enumerate(value.maps))
    elif isinstance(value, dict | MappingProxyType):
        yield from _items(value)
    elif shape_of(type(value)) is Shape.NAMED_TUPLE:
        yield from ((f".{name}", held) for name, held in zip(value._fields, value, strict=False))
    elif isinstance(value, list | tuple | deque):
        yield from ((f"[{number}]", held) for number, held in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from (("[*]", held) for held in value)
    elif isinstance(value, BaseExceptionGroup):
        yield from ((f".exceptions[{number}]", held) for number, held in enumerate(value.exceptions))
    elif isinstance(value, slice):
        yield from ((f".{name}", getattr(value, name)) for name in ("start", "stop", "step"))
    elif _is_object_array(value):
        yield from ((_indexed(value, number), held) for number, held in enumerate(value.flat))
    if isinstance(value, SimpleNamespace) or shape_of(type(value)) not in (None, Shape.ENUM, Shape.ERROR):
        yield from ((f".{name}", held) for name, held in attributes_of(value).items())


def _encoded(encode: Any, value: Any) -> Iterator[tuple[str, Any]]:
    try:
        stored = encode(value)
    except Exception:
        return
    yield "", stored


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, defaultdict):
        yield ".default_factory", value.default_factory
    for number, (key, held) in enumerate(value.items()):
        yield f".keys()[{number}]", key
        yield f"[{_key_text(key)}]", held


def _key_text(key: Any) -> str:
    try:
        text = repr(key)
    except Exception:
        text = f"<{type(key).__qualname__}>"
    return text if len(text) <= _LONGEST_KEY else text[: _LONGEST_KEY - 3] + "..."


def _is_object_array(value: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray) and value.dtype == object


def _indexed(array: Any, number: int) -> str:
    index = sys.modules["numpy"].unravel_index(number, array.shape)
    return f"[{', '.join(str(int(place)) for place in index)}]"
