"""Classes of named values for inside the house: `dataclass(slots=True)`, cheaper to define.

A dataclass compiles each of its methods by itself, about a quarter of a millisecond a class; the
rooms define some sixty, which every program would pay for at its start. Here only `__init__` is
compiled, and not before somebody makes an instance; the other methods are shared by all classes.
Values that user code may meet are dataclasses, since it may ask `dataclasses` about them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, field
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")

__all__ = ["field", "replace", "slotted", "values"]


@overload
@dataclass_transform(field_specifiers=(field,))
def slotted(cls: type[T], /) -> type[T]: ...
@overload
@dataclass_transform(field_specifiers=(field,))
def slotted(
    *, frozen: bool = False, eq: bool = True, kw_only: bool = False
) -> Callable[[type[T]], type[T]]: ...
def slotted(
    cls: type[Any] | None = None, /, *, frozen: bool = False, eq: bool = True, kw_only: bool = False
) -> Any:
    """Makes the annotated names of a class its slots and the parameters of its `__init__`.

    Flags, `field` and `__post_init__` mean what they mean to `dataclasses`. Fields are those
    written in the class itself, none are inherited.
    """

    def made(cls: type[Any]) -> Any:
        return _made(cls, frozen, eq, kw_only)

    return made if cls is None else made(cls)


def replace(value: T, /, **changes: Any) -> T:
    """A copy with some fields changed. Goes through `__init__`: what that works out is new."""
    cls: Any = type(value)
    code = cls.__init__.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    copy: T = cls(**{name: getattr(value, name) for name in names} | changes)
    return copy


def _made(cls: Any, frozen: bool, eq: bool, kw_only: bool) -> Any:
    fields = {name: _field(cls.__dict__.get(name, MISSING)) for name in cls.__annotations__}
    positional = () if kw_only else tuple(name for name, spec in fields.items() if spec.init)
    body: dict[str, Any] = {
        "__qualname__": cls.__qualname__,
        "__slots__": tuple(fields),
        "__match_args__": positional,
        "__repr__": _repr,
    }
    if eq:
        body |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if frozen:
        body |= _FROZEN
    body |= {name: value for name, value in cls.__dict__.items() if name not in fields}
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    twin: Any = type(cls)(cls.__name__, cls.__bases__, body)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        twin.__init__ = _init(twin, fields, frozen, kw_only)
        twin.__init__(self, *args, **kwargs)

    twin.__init__ = __init__
    return twin


def _field(default: Any) -> Field[Any]:
    if isinstance(default, Field):
        return default
    plain: Field[Any] = field(default=default)
    return plain


def _init(cls: Any, fields: dict[str, Field[Any]], frozen: bool, kw_only: bool) -> Any:
    names: dict[str, Any] = {"__name__": cls.__module__, "_MISSING": MISSING}
    parameters = ["self", "*"] if kw_only else ["self"]
    lines = []
    for name, spec in fields.items():
        parameter, value = _parameter(name, spec, names)
        if spec.init:
            parameters.append(parameter)
        if not value:
            continue
        if frozen:
            names[f"_set_{name}"] = getattr(cls, name).__set__
            lines.append(f" _set_{name}(self, {value})")
        else:
            lines.append(f" self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n" + ("\n".join(lines) or " pass"), names)
    init = names.pop("__init__")
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _parameter(name: str, spec: Field[Any], names: dict[str, Any]) -> tuple[str, str]:
    """How a field stands in the head of `__init__`, and what it is set to there."""
    if spec.default is not MISSING:
        names[f"_default_{name}"] = spec.default
        return f"{name}=_default_{name}", name if spec.init else f"_default_{name}"
    if spec.default_factory is not MISSING:
        names[f"_new_{name}"] = spec.default_factory
        made = f"_new_{name}()"
        return f"{name}=_MISSING", f"{made} if {name} is _MISSING else {name}" if spec.init else made
    return name, name if spec.init else ""


def values(value: Any) -> tuple[Any, ...]:
    """The values of its fields, in their order."""
    return tuple([getattr(value, name) for name in value.__slots__])


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: object) -> Any:
    return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(values(self))


def _setattr(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _setstate(self: Any, state: Sequence[Any]) -> None:
    for name, value in zip(self.__slots__, state, strict=True):
        object.__setattr__(self, name, value)


_FROZEN = {
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    # `copy` and `pickle` would use `setattr`
    "__getstate__": values,
    "__setstate__": _setstate,
}
