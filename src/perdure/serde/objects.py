"""Instances of users' classes: data classes, enums, named tuples, models, subclasses of built-ins.

They are taken apart by reading attributes and put together by setting them; no constructor,
`__post_init__`, validator or `__setattr__` runs.
"""

from __future__ import annotations

import copy
import enum
import sys
from collections.abc import Callable, Iterable
from dataclasses import MISSING, is_dataclass
from dataclasses import fields as dataclass_fields
from types import MethodType
from typing import Any, cast

from ormsgpack import Ext

from perdure.serde import codes
from perdure.serde.decode import Decoding
from perdure.serde.encode import Encoding
from perdure.serde.faults import ForeignError, Refusal, unknown_type
from perdure.serde.registry import Registry
from perdure.serde.shapes import (
    Shape,
    attributes_of,
    builtin_base,
    content_of,
    make_builtin,
    set_attributes,
    shape_of,
)
from perdure.serde.tables import JOINS, PUTS, Put, built_in

# -- registered classes ------------------------------------------------------------------------


def registered(registry: Registry, cls: type) -> Put | None:
    """How classes are tagged that were registered with functions."""
    entry = registry.entry(cls)
    if entry is None or entry.encode is None:
        return None
    name, encode = entry.name, entry.encode
    return lambda run, value: run.part(codes.REGISTERED, [name, encode(value)])


def _join_registered(run: Decoding, content: list[Any]) -> Any:
    name, stored = content
    entry = run.registry.entry(run.registry.find(name))
    if entry is None or entry.decode is None:
        raise unknown_type(name, "is registered without a decode function; register it with one")
    try:
        return entry.decode(stored)
    except Exception as error:
        error.add_note(f"while reading a stored {name}")
        raise ForeignError(error) from error


JOINS[codes.REGISTERED] = _join_registered

# -- classes as values -------------------------------------------------------------------------


def _put_type(run: Encoding, value: type) -> Ext:
    if not _is_storable_type(run.registry, value):
        raise Refusal("only built-in types and data classes can be stored by name")
    return run.part(codes.TYPE, [run.registry.name_of(value)])


def _join_type(run: Decoding, content: list[Any]) -> type:
    (name,) = content
    cls = run.registry.find(name)
    if not _is_storable_type(run.registry, cls):
        raise unknown_type(name, "is not a data class; register it to read them")
    return cls


def _is_storable_type(registry: Registry, cls: type) -> bool:
    if cls.__module__ == "builtins" or built_in(cls) or registry.entry(cls) is not None:
        return True
    return shape_of(cls) is not None


def class_itself(registry: Registry, cls: type) -> Put | None:
    """How classes are tagged when they are the values."""
    return _put_type if issubclass(cls, type) else None


PUTS[type] = _put_type
JOINS[codes.TYPE] = _join_type

# -- data classes ------------------------------------------------------------------------------


def _shaped(run: Decoding, name: str, *shapes: Shape) -> type:
    cls = run.classes.get(name) or run.registry.find(name)
    if shape_of(cls) not in shapes:
        kinds = " or ".join(shape.value for shape in shapes)
        raise unknown_type(name, f"is not {kinds}; register it with a decode function to read them")
    run.classes[name] = cls
    return cls


def data_class(registry: Registry, cls: type) -> Put | None:
    """How classes are tagged whose instances are plain data."""
    shape = shape_of(cls)
    make = _PUTS_OF_SHAPES.get(shape) if shape is not None else None
    return make(registry.name_of(cls), cls) if make is not None else None


def _put_enum(name: str, cls: type) -> Put:
    def put(run: Encoding, value: enum.Enum) -> Ext:
        held = value._value_
        by_value = type(held) in (int, str, float, bool, bytes) and held == held  # not so for nan
        return run.part(codes.ENUM, [name, held] if by_value else [name, None, value._name_])

    return put


def _join_enum(run: Decoding, content: list[Any]) -> enum.Enum:
    cls = cast("type[enum.Enum]", _shaped(run, content[0], Shape.ENUM))
    if len(content) == 3:
        return cls._member_map_[content[2]]
    value = content[1]
    member = cls._value2member_map_.get(value)
    if member is None and issubclass(cls, enum.Flag):
        # A combination that nobody has asked for in this process yet.
        combine = cast(MethodType, enum.Flag._missing_).__func__
        member = combine(cls, value)
    if member is None:
        raise ValueError(f"{cls.__qualname__} has no member with the value {value!r}")
    return member


def _put_named_tuple(name: str, cls: type) -> Put:
    def put(run: Encoding, value: tuple[Any, ...]) -> Ext:
        return run.part(codes.NAMED_TUPLE, [name, [*tuple.__iter__(value)], attributes_of(value)])

    return put


def _join_named_tuple(run: Decoding, content: list[Any]) -> Any:
    name, items, attributes = content
    cls: Any = _shaped(run, name, Shape.NAMED_TUPLE)
    # Fields that the class got later have their defaults.
    for field in cls._fields[len(items) :]:
        items.append(cls._field_defaults[field])
    if len(items) != len(cls._fields):
        raise ValueError(f"{cls.__qualname__} has {len(cls._fields)} fields, stored were {len(items)}")
    made = tuple.__new__(cls, items)
    set_attributes(made, attributes)
    return made


def _put_builtin(name: str, cls: type) -> Put:
    base = cast(type, builtin_base(cls))

    def put(run: Encoding, value: Any) -> Ext:
        content = content_of(value, base)
        return run.part(codes.BUILTIN, [name, base.__name__, content, attributes_of(value)])

    return put


def _join_builtin(run: Decoding, content: list[Any]) -> Any:
    name, base_name, held, attributes = content
    cls = _shaped(run, name, Shape.BUILTIN)
    base = cast(type, builtin_base(cls))
    if base.__name__ != base_name:
        raise ValueError(f"{cls.__qualname__} was a {base_name} and is a {base.__name__}")
    made = make_builtin(cls, base, held)
    set_attributes(made, attributes)
    return made


def _put_object(name: str, cls: type) -> Put:
    def put(run: Encoding, value: object) -> Ext:
        return run.part(codes.OBJECT, [name, attributes_of(value)])

    return put


def _join_object(run: Decoding, content: list[Any]) -> Any:
    name, attributes = content
    cls = _shaped(run, name, Shape.OBJECT, Shape.MODEL)
    if shape_of(cls) is Shape.MODEL:  # a dataclass that became a model
        return _join_model(run, [name, attributes, list(attributes), None, None])
    made: Any = object.__new__(cls)
    set_attributes(made, attributes)
    missing = _later_fields(cls, attributes)
    if missing:
        set_attributes(made, missing)
    return made


def _put_model(name: str, cls: type) -> Put:
    def put(run: Encoding, value: Any) -> Ext:
        fields_set = sorted(value.__pydantic_fields_set__)
        extra = getattr(value, "__pydantic_extra__", None)
        private = getattr(value, "__pydantic_private__", None)
        return run.part(codes.MODEL, [name, value.__dict__, fields_set, extra, private])

    return put


def _join_model(run: Decoding, content: list[Any]) -> Any:
    name, fields, fields_set, extra, private = content
    cls: Any = _shaped(run, name, Shape.MODEL)
    made: Any = object.__new__(cls)
    fields.update(_later_model_fields(cls, fields))
    object.__setattr__(made, "__dict__", fields)
    object.__setattr__(made, "__pydantic_fields_set__", set(fields_set))
    object.__setattr__(made, "__pydantic_extra__", extra)
    object.__setattr__(made, "__pydantic_private__", private)
    return made


JOINS[codes.ENUM] = _join_enum
JOINS[codes.NAMED_TUPLE] = _join_named_tuple
JOINS[codes.BUILTIN] = _join_builtin
JOINS[codes.OBJECT] = _join_object
JOINS[codes.MODEL] = _join_model

_PUTS_OF_SHAPES: dict[Shape, Callable[[str, type], Put]] = {
    Shape.ENUM: _put_enum,
    Shape.NAMED_TUPLE: _put_named_tuple,
    Shape.BUILTIN: _put_builtin,
    Shape.OBJECT: _put_object,
    Shape.MODEL: _put_model,
}

# -- fields that a class got after its instances were stored -----------------------------------

_EMPTY_FACTORIES = (list, dict, set, frozenset, tuple)
"""Factories that may be called: they do nothing but make something empty."""


def _later_fields(cls: Any, known: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(cls, "__dataclass_fields__", None) or {
        field.name: field for field in getattr(cls, "__attrs_attrs__", ())
    }
    if fields.keys() <= known.keys():
        return {}
    if is_dataclass(cls):  # leave out what stands in the class only
        fields = {field.name: field for field in dataclass_fields(cls)}
    return _defaults((name, field) for name, field in fields.items() if name not in known)


def _later_model_fields(cls: Any, known: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = cls.__pydantic_fields__
    if fields.keys() <= known.keys():
        return {}
    return _defaults((name, field) for name, field in fields.items() if name not in known)


def _defaults(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, field in fields:
        factory = getattr(field, "default_factory", None)
        default = field.default
        if hasattr(default, "factory") and not getattr(default, "takes_self", True):  # attrs
            factory = default.factory
        if factory in _EMPTY_FACTORIES:
            found[name] = factory()
        elif not _is_no_default(default):
            found[name] = copy.copy(default) if type(default) in _EMPTY_FACTORIES else default
    return found


def _is_no_default(default: Any) -> bool:
    undefined = getattr(sys.modules.get("pydantic_core"), "PydanticUndefined", MISSING)
    nothing = getattr(sys.modules.get("attr"), "NOTHING", MISSING)
    return default is MISSING or default is undefined or default is nothing or hasattr(default, "factory")
