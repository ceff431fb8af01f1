"""What annotations say: the fields of a schema class, where a function may go next."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types
import typing
from collections.abc import Hashable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Union, get_args, get_origin

import typing_extensions

from perdure.types import Command

_QUALIFIERS = (
    typing.Required,
    typing.NotRequired,
    typing_extensions.ReadOnly,
    getattr(typing, "ReadOnly", typing_extensions.ReadOnly),
    Final,
)


def fields_of(schema: Any) -> Mapping[str, Any] | None:
    """Names and annotations of the fields of a schema class, inherited ones included.

    Returns:
        None when the schema is no class with fields: the state is then one value of that type.
    """
    cls = get_origin(schema) or schema
    if cls is Annotated or not isinstance(cls, type):
        return None
    fields = _class_fields(cls)
    if fields is None or cls is schema:
        return fields
    parameters = dict(zip(getattr(cls, "__parameters__", ()), get_args(schema), strict=False))
    return {key: _substituted(hint, parameters) for key, hint in fields.items()}


def _class_fields(cls: type) -> Mapping[str, Any] | None:
    if is_typeddict(cls):
        return _hints(cls)
    if is_model(cls):
        return _model_fields(cls)
    if dataclasses.is_dataclass(cls):
        hints = _hints(cls)
        return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}
    hints = {key: hint for key, hint in _hints(cls).items() if not _is_class_variable(key, hint)}
    return hints or None


def _is_class_variable(key: str, hint: Any) -> bool:
    return hint is ClassVar or get_origin(hint) is ClassVar or key == "__slots__"


def _hints(cls: type) -> dict[str, Any]:
    return typing_extensions.get_type_hints(cls, include_extras=True)


def _model_fields(cls: Any) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = cls.model_fields
    try:
        hints = _hints(cls)
    except NameError:
        # Pydantic resolves names of the scope in which the model was made; we cannot.
        return {
            key: Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
            for key, field in fields.items()
        }
    return {key: hints.get(key, field.annotation) for key, field in fields.items()}


def _substituted(hint: Any, parameters: Mapping[Any, Any]) -> Any:
    if isinstance(hint, typing.TypeVar):
        return parameters.get(hint, hint)
    names = getattr(hint, "__parameters__", ())
    return hint[tuple(parameters.get(name, name) for name in names)] if names else hint


def is_typeddict(schema: Any) -> bool:
    """Whether a schema is a TypedDict class, of `typing` or `typing_extensions`."""
    return typing_extensions.is_typeddict(get_origin(schema) or schema)


def is_model(schema: Any) -> bool:
    """Whether a schema is a pydantic model class. Pydantic is not imported to find out."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(schema, type) and issubclass(schema, pydantic.BaseModel)


def strip(hint: Any) -> Any:
    """An annotation without what it says of the key alone (Required, NotRequired, ReadOnly)."""
    if isinstance(hint, typing_extensions.TypeAliasType):
        return strip(hint.__value__)
    origin = get_origin(hint)
    if origin in _QUALIFIERS:
        return strip(get_args(hint)[0])
    if origin is not Annotated:
        return hint
    inner = strip(hint.__origin__)
    return hint if inner is hint.__origin__ else Annotated[(inner, *hint.__metadata__)]


def is_required(typeddict: Any, key: str, hint: Any) -> bool:
    """Whether a TypedDict must have a key. A class whose annotations are text does not know
    that itself where they say Required or NotRequired."""
    while get_origin(hint) is Annotated or get_origin(hint) in _QUALIFIERS:
        if get_origin(hint) in (typing.Required, typing.NotRequired):
            return get_origin(hint) is typing.Required
        hint = hint.__origin__ if get_origin(hint) is Annotated else get_args(hint)[0]
    return key in typeddict.__required_keys__


def instance_fields(instance: object) -> tuple[str, ...]:
    """The fields that an instance of a schema class writes; none when its class has none."""
    cls: Any = type(instance)
    return _fields_or_none(cls)


@functools.lru_cache(maxsize=1024)
def _fields_or_none(cls: Hashable) -> tuple[str, ...]:
    try:
        return tuple(fields_of(cls) or ())
    except (NameError, TypeError, AttributeError):
        return ()


# -- functions ---------------------------------------------------------------------------------


def input_class(fn: Any) -> Any:
    """The schema class that a function's first parameter asks for, or None."""
    hints = _function_hints(fn)
    try:
        first = next(iter(inspect.signature(fn).parameters), None)
    except (TypeError, ValueError):
        return None
    hint = hints.get(first) if first is not None else None
    try:
        return hint if isinstance(get_origin(hint) or hint, type) and fields_of(hint) else None
    except (NameError, TypeError):
        return None


def literal_targets(fn: Any) -> tuple[str, ...]:
    """Where a function's return annotation `Literal[...]` says that it may go."""
    returned = strip(_function_hints(fn).get("return"))
    return tuple(get_args(returned)) if get_origin(returned) is Literal else ()


def command_targets(fn: Any) -> tuple[str, ...]:
    """Where `Command[Literal[...]]`, alone or in a union, says that a function may go."""
    return tuple(dict.fromkeys(_targets(_function_hints(fn).get("return"))))


def _targets(hint: Any) -> Iterator[str]:
    hint = strip(hint)
    origin = get_origin(hint)
    if origin is Annotated:
        yield from _targets(hint.__origin__)
    elif origin is Union or origin is types.UnionType:
        for part in get_args(hint):
            yield from _targets(part)
    elif origin is Command:
        for part in get_args(hint):
            if get_origin(part) is Literal:
                yield from get_args(part)


def _function_hints(fn: Any) -> dict[str, Any]:
    """Resolved annotations of a callable; none where they cannot be had."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not (inspect.isroutine(fn) or inspect.isclass(fn)):
        fn = inspect.getattr_static(type(fn), "__call__", None)
    if not inspect.isroutine(fn):
        return {}
    try:
        return typing_extensions.get_type_hints(fn, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}
