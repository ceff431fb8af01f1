"""The containers of the standard library, and what else holds values."""

from __future__ import annotations

from collections import ChainMap, Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection
from struct import Struct
from types import MappingProxyType, SimpleNamespace
from typing import Any

from ormsgpack import Ext

from perdure.serde import codes
from perdure.serde.decode import Decoding
from perdure.serde.encode import Encoding, is_sortable
from perdure.serde.shapes import pairs
from perdure.serde.tables import JOINS, LOADS, PUTS

_COMPLEX = Struct("<dd")


def container(
    code: int, cls: type, split: Callable[[Any], list[Any]], join: Callable[[list[Any]], Any]
) -> None:
    """Adds a kind: `split` gives what a value holds, `join` makes it again."""

    def put(run: Encoding, value: Any) -> Ext:
        return run.part(code, split(value))

    def build(run: Decoding, content: list[Any]) -> Any:
        return join(content)

    PUTS[cls] = put
    JOINS[code] = build


def flat(value: Any) -> list[Any]:
    """key, value, key, value ..."""
    return [half for pair in value.items() for half in pair]


def _dict(content: list[Any]) -> dict[Any, Any]:
    made = dict(pairs(content))
    if len(made) * 2 != len(content):
        raise ValueError("a key stands twice in one dict")
    return made


def _split_set(value: Collection[Any]) -> list[Any]:
    # In order where that is cheap: equal sets should give equal bytes.
    return sorted(value) if is_sortable(value) else list(value)


def _set(content: list[Any]) -> set[Any]:
    made = set(content)
    if len(made) != len(content):
        raise ValueError("an element stands twice in one set")
    return made


def _default_dict(content: list[Any]) -> defaultdict[Any, Any]:
    factory, *items = content
    if factory is not None and not isinstance(factory, type):
        raise ValueError("a default factory is not a type")
    return defaultdict(factory, _dict(items))


container(codes.TUPLE, tuple, list, tuple)
container(codes.SET, set, _split_set, _set)
container(codes.FROZENSET, frozenset, _split_set, lambda content: frozenset(_set(content)))
container(codes.ORDERED_DICT, OrderedDict, flat, lambda content: OrderedDict(_dict(content)))
container(codes.COUNTER, Counter, flat, lambda content: Counter(_dict(content)))
container(codes.DEFAULT_DICT, defaultdict, lambda value: [value.default_factory, *flat(value)], _default_dict)
container(
    codes.DEQUE, deque, lambda value: [value.maxlen, *value], lambda content: deque(content[1:], content[0])
)
container(codes.CHAIN_MAP, ChainMap, lambda value: list(value.maps), lambda content: ChainMap(*content))
container(codes.MAPPING_PROXY, MappingProxyType, flat, lambda content: MappingProxyType(_dict(content)))
container(
    codes.NAMESPACE,
    SimpleNamespace,
    lambda value: flat(value.__dict__),
    lambda content: SimpleNamespace(**_dict(content)),
)
container(
    codes.SLICE,
    slice,
    lambda value: [value.start, value.stop, value.step],
    lambda content: slice(*content),
)
container(
    codes.RANGE,
    range,
    lambda value: [value.start, value.stop, value.step],
    lambda content: range(*content),
)

# Made by the walk that tags what msgpack refuses; there is no type of their own.
JOINS[codes.PAIRS] = lambda run, content: _dict(content)
JOINS[codes.DEEP_LIST] = lambda run, content: _checked(content, list)
JOINS[codes.DEEP_DICT] = lambda run, content: _checked(content, dict)


def _checked(content: Any, kind: type) -> Any:
    if type(content) is not kind:
        raise ValueError(f"a {kind.__name__} is something else")
    return content


def _put_bytearray(run: Encoding, value: bytearray) -> Ext:
    return Ext(codes.BYTEARRAY, bytes(value))


PUTS[bytearray] = _put_bytearray
LOADS[codes.BYTEARRAY] = bytearray


def _put_int(run: Encoding, value: int) -> Ext:
    return Ext(codes.BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


PUTS[int] = _put_int
LOADS[codes.BIG_INT] = lambda payload: int.from_bytes(payload, "big", signed=True)
LOADS[codes.TEXT] = lambda payload: payload.decode("utf-8", "surrogatepass")

PUTS[type(...)] = lambda run, value: Ext(codes.ELLIPSIS, b"")
PUTS[type(NotImplemented)] = lambda run, value: Ext(codes.NOT_IMPLEMENTED, b"")
LOADS[codes.ELLIPSIS] = lambda payload: ...
LOADS[codes.NOT_IMPLEMENTED] = lambda payload: NotImplemented
PUTS[complex] = lambda run, value: Ext(codes.COMPLEX, _COMPLEX.pack(value.real, value.imag))
LOADS[codes.COMPLEX] = lambda payload: complex(*_COMPLEX.unpack(payload))
