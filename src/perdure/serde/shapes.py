"""How instances of a class are taken apart and put together without running its code.

A class has a shape when its instances are plain data: an enum, an exception, a pydantic model,
a named tuple, a dataclass or attrs class, or a subclass of a built-in container or scalar. Other
classes have none; they may hold a lock, a socket, anything, and only their author knows how to
store them.
"""

from __future__ import annotations

import enum
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from types import MemberDescriptorType
from typing import Any
from weakref import WeakKeyDictionary


class Shape(enum.Enum):
    """What kind of data class a class is."""

    ENUM = "an enum"
    ERROR = "an exception"
    MODEL = "a pydantic model"
    NAMED_TUPLE = "a named tuple"
    BUILTIN = "a subclass of a built-in"
    OBJECT = "a data class"


BUILTINS: tuple[type, ...] = (
    Counter,
    OrderedDict,
    defaultdict,
    dict,
    list,
    tuple,
    set,
    frozenset,
    deque,
    str,
    bytes,
    bytearray,
    int,
    float,
)
"""Built-ins whose subclasses are data, the more special ones first."""

PLAIN_CLASSES = frozenset(
    {
        "perdure.types:Send",
        "perdure.store.base:Item",
        "perdure.store.base:SearchItem",
        "collections:UserDict",
        "collections:UserList",
        "collections:UserString",
        "pydantic.types:SecretStr",
        "pydantic.types:SecretBytes",
        "pydantic.v1.types:SecretStr",
        "pydantic.v1.types:SecretBytes",
    }
)
"""Classes known to hold nothing but data although nothing about them says so."""

_CACHED_HASH = "_attrs_cached_hash"
"""What attrs keeps in this attribute is true in one process only; None makes it look again."""


_shapes: WeakKeyDictionary[type, Shape] = WeakKeyDictionary()


def shape_of(cls: type) -> Shape | None:
    """The shape of a class, None where its instances are not known to be data."""
    shape = _shapes.get(cls)
    if shape is None:
        shape = _find_shape(cls)
        if shape is not None:
            _shapes[cls] = shape
    return shape


def _find_shape(cls: type) -> Shape | None:
    bases = cls.__mro__
    if enum.Enum in bases:
        return Shape.ENUM
    if BaseException in bases:
        return Shape.ERROR
    model = getattr(sys.modules.get("pydantic.main"), "BaseModel", None)
    if model in bases:
        return Shape.MODEL
    base = builtin_base(cls)
    if base is tuple and _is_named_tuple(cls):
        return Shape.NAMED_TUPLE
    if base is not None:
        return Shape.BUILTIN if can_be_made(base, cls) else None
    return Shape.OBJECT if _is_object(cls) and can_be_made(object, cls) else None


def builtin_base(cls: type) -> type | None:
    """The built-in that a class specialises, if there is one."""
    bases = cls.__mro__
    return next((base for base in BUILTINS if base in bases), None)


def _is_named_tuple(cls: type) -> bool:
    fields = getattr(cls, "_fields", None)
    return type(fields) is tuple and all(type(name) is str for name in fields) and can_be_made(tuple, cls)


def can_be_made(base: Any, cls: type) -> bool:
    """Whether a base makes instances of a class."""
    # Types written in C refuse to be made by another's constructor (`time.struct_time`).
    try:
        base.__new__(cls)
    except TypeError:
        return False
    return True


def _is_object(cls: type) -> bool:
    names = {f"{base.__module__}:{base.__qualname__}" for base in cls.__mro__}
    if "pydantic.networks:_BaseUrl" in names or "pydantic.v1.main:BaseModel" in names:
        return True
    if f"{cls.__module__}:{cls.__qualname__}" in PLAIN_CLASSES:
        return True
    return hasattr(cls, "__dataclass_fields__") or hasattr(cls, "__attrs_attrs__")


# -- attributes ------------------------------------------------------------------------------

_slots: WeakKeyDictionary[type, dict[str, MemberDescriptorType]] = WeakKeyDictionary()


def slots_of(cls: type) -> dict[str, MemberDescriptorType]:
    """The slots that a class and its bases declare, by name."""
    found = _slots.get(cls)
    if found is None:
        found = _slots[cls] = {
            name: member
            for base in reversed(cls.__mro__)
            if base.__module__ != "builtins"
            for name, member in base.__dict__.items()
            if isinstance(member, MemberDescriptorType) and name != "__dict__"
        }
    return found


def attributes_of(value: object) -> dict[str, Any]:
    """Everything an instance holds, its slots included. Not to be changed: may be its own dict."""
    held: dict[str, Any] = getattr(value, "__dict__", {})
    slots = slots_of(type(value))
    if slots:
        held = {**dict(_slot_values(value, slots)), **held}
    if _CACHED_HASH in held:
        held = {**held, _CACHED_HASH: None}
    return held


def _slot_values(value: object, slots: dict[str, MemberDescriptorType]) -> Iterator[tuple[str, Any]]:
    for name, slot in slots.items():
        try:
            yield name, slot.__get__(value)
        except AttributeError:  # never set, or deleted
            continue


def set_attributes(value: object, attributes: dict[str, Any]) -> None:
    """Puts back what `attributes_of` gave, past `__setattr__`, properties and frozen classes.

    Raises ValueError for an attribute that instances of the class have no room for.
    """
    slots = slots_of(type(value))
    own = getattr(value, "__dict__", None)
    for name, item in attributes.items():
        if name in slots:
            slots[name].__set__(value, item)
        elif type(own) is dict and type(name) is str:
            own[name] = item
        else:
            raise ValueError(f"{type(value).__qualname__} has no attribute {name!r} any more")


# -- content of subclasses of built-ins --------------------------------------------------------


def content_of(value: Any, base: Any) -> Any:
    """What a subclass of a built-in holds, as plain data, whatever the subclass overrides."""
    if base is defaultdict:
        return [_FACTORY.__get__(value), *_flat(value)]
    if issubclass(base, dict):
        return _flat(value)
    if base is deque:
        return [_MAXLEN.__get__(value), *deque.__iter__(value)]
    if base in (list, tuple, set, frozenset):
        return [*base.__iter__(value)]
    if base in (bytes, bytearray):
        return bytes(memoryview(value))
    return _PLAIN[base](value)


_FACTORY: Any = defaultdict.__dict__["default_factory"]
_MAXLEN: Any = deque.__dict__["maxlen"]
_PLAIN: dict[type, Any] = {str: str.__str__, int: int.__int__, float: float.__float__}


def _flat(value: dict[Any, Any]) -> list[Any]:
    return [half for pair in dict.items(value) for half in pair]


def make_builtin(cls: type, base: Any, content: Any) -> Any:
    """Makes an instance of a subclass of a built-in, running nothing that the subclass defines."""
    if base in (str, int, float, bytes, tuple, frozenset):
        return base.__new__(cls, content)
    made = base.__new__(cls)
    if issubclass(base, dict):
        _fill_dict(made, base, content)
    elif base is deque:
        deque.__init__(made, content[1:], content[0])
    else:
        base.__init__(made, content)
    return made


def _fill_dict(made: Any, base: Any, content: list[Any]) -> None:
    if base is defaultdict:
        _FACTORY.__set__(made, content.pop(0))
    # An OrderedDict keeps its order apart from the dict.
    fill = OrderedDict.__setitem__ if base is OrderedDict else dict.__setitem__
    for key, item in pairs(content):
        fill(made, key, item)


def pairs(flat: list[Any]) -> Iterator[tuple[Any, Any]]:
    """key, value, key, value ... as pairs. Raises ValueError when the last value is missing."""
    items = iter(flat)
    return zip(items, items, strict=True)
