"""Exceptions: class, arguments, notes and attributes, without traceback, cause and context.

They come back as their own class when it is imported, made without running its constructor,
else as RecordedError. An attribute that cannot be stored is kept as text: an error must not fail
to be recorded because it holds the connection it was about.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MemberDescriptorType
from typing import Any

from ormsgpack import Ext

from perdure.errors import RecordedError, UnknownTypeError
from perdure.serde import codes
from perdure.serde.decode import Decoding
from perdure.serde.encode import Encoding
from perdure.serde.faults import Refusal
from perdure.serde.registry import Registry, qualified
from perdure.serde.shapes import Shape, attributes_of, can_be_made, set_attributes, shape_of
from perdure.serde.tables import JOINS, Put

_NOT_KEPT = frozenset({"exceptions", "obj"})
"""Members that are stored by other means; and what an AttributeError was about, which may be
anything."""

_MAX_LEVEL = 2
"""Errors in attributes of errors that are kept; what lies further in is text. They may refer to
each other at will, so there must be an end."""


def failure(registry: Registry, cls: type) -> Put | None:
    """How exceptions are tagged."""
    if shape_of(cls) is not Shape.ERROR:
        return None
    name = registry.name_of(cls, checked=False)
    members = _members_of(builtin_error(cls))
    told = not _can_be_made(cls)

    def put(run: Encoding, error: BaseException) -> Ext:
        if run.level > _MAX_LEVEL:
            raise Refusal("it is an error inside an error inside an error")
        # An error that nobody but its own library can make is told by its text.
        args = [kept(run, arg) for arg in ((_told(error),) if told else error.args)]
        held = _held(error, members) | attributes_of(error)
        attributes = {key: kept(run, value) for key, value in held.items()}
        inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        return run.part(codes.ERROR, [name, args, attributes, list(inner)])

    return put


def builtin_error(cls: type) -> Any:
    """The built-in exception that a class specialises."""
    return next(base for base in cls.__mro__ if base.__module__ == "builtins")


def _can_be_made(cls: type) -> bool:
    return issubclass(cls, BaseExceptionGroup) or can_be_made(builtin_error(cls), cls)


def _members_of(base: type) -> dict[str, Any]:
    """What built-in exceptions hold outside of their `__dict__`: `OSError.errno`, ..."""
    return {
        name: member
        for cls in reversed(base.__mro__)
        for name, member in cls.__dict__.items()
        if isinstance(member, MemberDescriptorType) and not name.startswith("_") and name not in _NOT_KEPT
    }


def _held(error: BaseException, members: dict[str, Any]) -> dict[str, Any]:
    values = {name: member.__get__(error) for name, member in members.items()}
    return {name: value for name, value in values.items() if value is not None}


def kept(run: Encoding, value: Any) -> bytes:
    """The value as bytes of its own; as text where it cannot be stored."""
    try:
        return run.inner(value)
    except Exception:
        return run.inner(_told(value, repr))


def _told(value: Any, tell: Callable[[Any], str] = str) -> str:
    try:
        return tell(value)
    except Exception:
        return f"<{type(value).__qualname__}>"


def _join_error(run: Decoding, content: list[Any]) -> BaseException:
    name, args_kept, attributes_kept, inner = content
    args = tuple(run.inner(arg) for arg in args_kept)
    attributes = {key: run.inner(value) for key, value in attributes_kept.items()}
    try:
        cls = run.registry.find(name)
    except UnknownTypeError:
        cls = RecordedError
    if shape_of(cls) is not Shape.ERROR or not _can_be_made(cls):
        cls = RecordedError
    if cls is RecordedError and name != _RECORDED:
        return _recorded(name, args, attributes)
    return _made(cls, args, attributes, inner)


_RECORDED = qualified(RecordedError)


def _recorded(name: str, args: tuple[Any, ...], attributes: dict[str, Any]) -> RecordedError:
    error = RecordedError(name.replace(":", "."), args)
    for key, value in attributes.items():
        error.__dict__.setdefault(key, value)
    return error


def _made(cls: Any, args: tuple[Any, ...], attributes: dict[str, Any], inner: list[Any]) -> BaseException:
    base = builtin_error(cls)
    made: BaseException
    if issubclass(cls, BaseExceptionGroup):
        made = base.__new__(cls, attributes.pop("message"), inner)
    else:
        made = base.__new__(cls)
    made.args = args
    members = _members_of(base)
    for key in attributes.keys() & members.keys():
        members[key].__set__(made, attributes.pop(key))
    set_attributes(made, attributes)
    return made


JOINS[codes.ERROR] = _join_error
