"""What the code of a function shows about where it may run.

A *quiet* function cannot tell listeners anything while it runs: it calls nothing but builtins, so
it calls no task, no graph, no model and no writer. It may run on the thread that hands events out,
as there is nothing to hand out meanwhile. A *brief* one is quiet and only looks at what it is
given, once: it cannot wait, and has no loop. It may run on an event loop, though it is sync.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.engine.action import Action

_REACHING = frozenset(
    ("__import__", "breakpoint", "compile", "eval", "exec", "getattr", "globals", "locals", "vars")
)
_HARMLESS = frozenset(vars(builtins)) - _REACHING
_LOOKING = frozenset(("abs", "all", "any", "bool", "int", "isinstance", "len", "max", "min", "str", "type"))
_HANDING_OVER = frozenset(("PUSH_NULL", "KW_NAMES", "CALL_KW", "BEFORE_WITH", "LOAD_SPECIAL"))
"""How code calls something else than a builtin by its name, hands it a function (`key=`), or enters
what the state holds: a lock, perhaps."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def is_quiet(action: Action) -> bool:
    """True when the code of an action reaches nothing but the state, builtins and plain values."""
    fn = action.fn
    if action.inject or type(fn) is not FunctionType:
        return False
    reached = [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
    for name in {name for code in _codes(fn.__code__) for name in code.co_names}:
        if name in fn.__globals__:
            reached.append(fn.__globals__[name])
        elif name not in _HARMLESS:
            return False
    for cell in fn.__closure__ or ():
        try:
            reached.append(cell.cell_contents)
        except ValueError:  # Not bound yet: it may become anything.
            return False
    return all(isinstance(value, _PLAIN) for value in reached)


def is_brief(action: Action) -> bool:
    """True when the code of an action only looks at the state, without waiting and without a loop."""
    if not is_quiet(action):
        return False
    code = action.fn.__code__
    named = {name for name in code.co_names if name not in action.fn.__globals__}
    steps = {step.opname for step in dis.get_instructions(code)}
    looping = any("BACKWARD" in step for step in steps)
    looks_once = not looping and steps.isdisjoint(_HANDING_OVER) and len(list(_codes(code))) == 1
    return looks_once and named <= _LOOKING


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
