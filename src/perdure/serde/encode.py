"""Values to bytes.

Plain trees (dict with text keys, list, text, numbers, bytes, None) are packed by msgpack in one
go. Whatever else stands in them becomes an extension, which carries its content, packed, where
that is plain; otherwise the number of a *part*, a tree of its own that is packed afterwards. So
nothing here recurses, however deep a value is nested:

    [1, (2, {3})]   ->   part 0: [1, TUPLE -> 1]   part 1: [2, SET [3]]

One part alone is written as it is; several follow a mark that msgpack never uses.

What msgpack would change without a word (bytearrays) or refuses (lone surrogates, keys that are
not text, great depth) is tagged by a walk in Python, in the same format. There is one format.
"""

from __future__ import annotations

from collections.abc import Collection
from types import FunctionType
from typing import Any

import ormsgpack
from ormsgpack import Ext, packb

from perdure.serde import codes
from perdure.serde.faults import Refusal, TooDeep, type_name
from perdure.serde.registry import Registry
from perdure.serde.tables import PUTS, RESOLVERS, Put

OPTIONS = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)

MARK = b"\xc1\x01"
"""Several parts follow, in version 1 of the format."""

MAX_DEPTH = 3000
"""Parts within parts. Only a value that contains itself comes near."""

_PART_DEPTH = 64
"""Plain containers within each other, after which the walk begins a new part."""

MAX_LEVEL = 20
"""Documents within documents. These recurse, unlike parts."""


class Encoding:
    """One value on its way to bytes."""

    # Defaults stand at the class: most values are small, and need none of this.
    level = 0
    _error: BaseException | None = None
    _depth = 0
    _open: tuple[int, ...] = ()

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._parts: list[bytes] = [b""]
        self._todo: list[tuple[int, Any, int]] = []

    def document(self, value: Any) -> bytes:
        """The bytes. Raises Refusal, or what a registered encoder raised."""
        data = self._pack(value)
        if not self._todo:
            return data
        parts, todo = self._parts, self._todo
        parts[0] = data
        while todo:
            # Depth first, so that a value which contains itself soon shows by its depth.
            index, content, self._depth = todo.pop()
            if self._depth > MAX_DEPTH:
                raise TooDeep(f"it contains itself, or is nested deeper than {MAX_DEPTH} levels")
            parts[index] = self._pack(content)
        return MARK + packb(parts)

    def part(self, code: int, content: list[Any] | dict[str, Any]) -> Ext:
        """Tags a value that holds others. Plain content goes along, other is packed later."""
        try:
            data = packb(content, None, OPTIONS)
            if not _may_hold_bytes(data):
                return Ext(code, data)
        except TypeError:
            pass
        index = len(self._parts)
        self._parts.append(b"")
        self._todo.append((index, content, self._depth + 1))
        return Ext(code, index.to_bytes(4, "big"))

    def tag(self, value: Any) -> Ext:
        """Tags a value that msgpack has no type for. Raises Refusal when nothing knows it."""
        try:
            put = PUTS.get(type(value))
            if put is None:
                put = put_for(self.registry, type(value))
            return put(self, value)
        except BaseException as error:
            # msgpack turns every error of its hook into a TypeError without a cause.
            self._error = error
            raise

    def inner(self, value: Any) -> bytes:
        """Bytes of their own for a value that lies inside this one. Raises what `document` raises."""
        if self.level >= MAX_LEVEL:
            raise Refusal("it lies too deep inside other values")
        inner = type(self)(self.registry)
        inner.level = self.level + 1
        return inner.document(value)

    def _pack(self, content: Any) -> bytes:
        before = len(self._parts), len(self._todo)
        try:
            data = packb(content, self.tag, OPTIONS)
            if not _may_hold_bytes(data) or not _holds_buffers(content):
                return data
        except TypeError:
            if self._error is not None and not isinstance(self._error, Exception):
                raise self._error from None
        # Once more, by hand. Errors pass unchanged on this way.
        del self._parts[before[0] :]
        del self._todo[before[1] :]
        self._error = None
        return packb(self._tagged(content, _PART_DEPTH), None, OPTIONS)

    def _tagged(self, value: Any, room: int) -> Any:
        """The same tree with everything tagged that msgpack would refuse or change."""
        kind = type(value)
        if kind is str:
            return value if _is_clean(value) else Ext(codes.TEXT, value.encode("utf-8", "surrogatepass"))
        if kind is list or kind is dict:
            return self._tagged_container(value, kind, room)
        if kind is int:
            return value if -(1 << 63) <= value < 1 << 64 else self.tag(value)
        if kind is bool or kind is float or kind is bytes or value is None:
            return value
        return self.tag(value)

    def _tagged_container(self, value: Any, kind: type, room: int) -> Any:
        if not room:
            return self.part(codes.DEEP_LIST if kind is list else codes.DEEP_DICT, value)
        if id(value) in self._open:
            raise TooDeep("it contains itself")
        outside = self._open
        self._open = (*outside, id(value))
        try:
            if kind is list:
                return [self._tagged(item, room - 1) for item in value]
            if all(type(key) is str and _is_clean(key) for key in value):
                return {key: self._tagged(item, room - 1) for key, item in value.items()}
            return self.part(codes.PAIRS, [half for pair in value.items() for half in pair])
        finally:
            self._open = outside


class Digesting(Encoding):
    """A value on its way to a digest: sets in order, what cannot be stored by name."""

    def tag(self, value: Any) -> Ext:
        kind = type(value)
        try:
            if (kind is set or kind is frozenset) and not is_sortable(value):
                code = codes.SET if kind is set else codes.FROZENSET
                return self.part(code, sorted(self.inner(item) for item in value))
            put = PUTS.get(kind)
            if put is None:
                put = put_for(self.registry, kind)
            return put(self, value)
        except TooDeep:
            raise
        except Exception:
            return Ext(codes.OPAQUE, _opaque(value).encode("utf-8", "surrogatepass"))


def is_sortable(items: Collection[Any]) -> bool:
    """Whether the order of these is the same in every process: all text, or all whole numbers."""
    kinds = set(map(type, items))
    return len(kinds) < 2 and kinds <= {str, int}


def _opaque(value: Any) -> str:
    name = type_name(type(value))
    if isinstance(value, type | FunctionType):
        return f"{name} {value.__module__}:{value.__qualname__}"
    return name


def put_for(registry: Registry, cls: type) -> Put:
    """How instances of a class that is not in the table are tagged. Raises Refusal."""
    entry = registry.entry(cls)
    known, put = registry.cache.get(cls, (None, None))
    if put is not None and known is entry:
        found: Put = put
        return found
    for resolve in RESOLVERS:
        put = resolve(registry, cls)
        if put is not None:
            registry.cache[cls] = entry, put
            return put
    raise Refusal


def _is_clean(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _may_hold_bytes(data: bytes) -> bool:
    # The three markers of msgpack's byte strings; other data may hold these numbers too.
    return b"\xc4" in data or b"\xc5" in data or b"\xc6" in data


def _holds_buffers(tree: Any) -> bool:
    """Whether there is a bytearray or memoryview in a plain tree, which msgpack makes bytes."""
    todo = [tree]
    while todo:
        value = todo.pop()
        kind = type(value)
        if kind is list:
            todo += value
        elif kind is dict:
            todo += value.values()
        elif kind is bytearray or kind is memoryview:
            return True
    return False
