"""Finds the workflow that a node contains or refers to, as far as it can be seen.

Nothing is called to find it: a function's code is read for the globals, closure variables and
attributes that it names, and those are looked up as they are when the graph is built.
"""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from perdure.engine.action import is_workflow

_NOTHING = object()


def subgraphs_of(fn: Any) -> tuple[Any, ...]:
    """The first workflow that `fn` is, chains, or names; none when that one keeps no state."""
    for candidate in _candidates(fn):
        if is_workflow(candidate):
            return (candidate,) if candidate.checkpointer is not False else ()
    return ()


def _candidates(fn: Any) -> Iterator[Any]:
    if is_workflow(fn):
        yield fn
    elif isinstance(fn, functools.partial):
        yield from _candidates(fn.func)
    elif isinstance(fn, MethodType):
        yield from _named_in(fn.__func__, fn.__self__)
    elif isinstance(fn, FunctionType):
        yield from _named_in(fn, _NOTHING)
    elif not inspect.isclass(fn) and not inspect.isbuiltin(fn):
        yield from _inside_object(fn)


def _inside_object(fn: Any) -> Iterator[Any]:
    """Steps of a Runnable sequence, the function in a Runnable, or the `__call__` of an object."""
    steps = getattr(fn, "steps", None)
    if isinstance(steps, list):
        for step in steps:
            yield from _candidates(step)
    for held in (getattr(fn, "func", None), getattr(fn, "afunc", None), getattr(fn, "bound", None)):
        if held is not None:
            yield from _candidates(held)
    call = inspect.getattr_static(type(fn), "__call__", None)
    if isinstance(call, FunctionType):
        yield from _named_in(call, fn)


def _named_in(fn: Any, owner: Any) -> Iterator[Any]:
    if not isinstance(fn, FunctionType):
        return
    wrapped = getattr(fn, "__wrapped__", None)
    if wrapped is not None:
        yield from _candidates(wrapped)
    code = fn.__code__
    own = {code.co_varnames[0]: owner} if owner is not _NOTHING and code.co_argcount else {}
    closure: dict[str, Any] = dict(own)  # an inner function may refer to `self`
    for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True):
        try:
            closure[name] = cell.cell_contents
        except ValueError:  # a variable that has no value yet
            continue
    yield from _read_by(code, own, closure, fn.__globals__)


def _read_by(
    code: CodeType, own: Mapping[str, Any], closure: Mapping[str, Any], world: Mapping[str, Any]
) -> Iterator[Any]:
    """Values of all names and attribute chains that code reads, in the order of the code."""
    current: Any = _NOTHING
    for instruction in dis.get_instructions(code):
        operation, argument = instruction.opname, instruction.argval
        if operation in ("CACHE", "EXTENDED_ARG", "PUSH_NULL"):
            continue
        if operation in ("LOAD_GLOBAL", "LOAD_NAME"):
            current = world.get(argument, _NOTHING)
        elif operation in ("LOAD_DEREF", "LOAD_CLASSDEREF"):
            current = closure.get(argument, _NOTHING)
        elif "LOAD_FAST" in operation:
            # Some versions handle two variables by one instruction: the last is on top.
            current = own.get(argument[-1] if isinstance(argument, tuple) else argument, _NOTHING)
        elif operation in ("LOAD_ATTR", "LOAD_METHOD") and current is not _NOTHING:
            current = _attribute(current, argument)
        else:
            current = _NOTHING
        if current is not _NOTHING:
            yield current
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _read_by(constant, {}, closure, world)


def _attribute(value: Any, name: str) -> Any:
    """An attribute that is there already; properties and the like are not asked."""
    if isinstance(value, ModuleType):
        return vars(value).get(name, _NOTHING)
    found = inspect.getattr_static(value, name, _NOTHING)
    if isinstance(found, staticmethod):
        return found.__func__
    if type(found).__name__ == "member_descriptor":  # a slot: reading it runs no code of the user's
        return getattr(value, name, _NOTHING)
    return found
