"""Functions that, as their code shows, cannot tell listeners anything while they run.

Such a function calls nothing but builtins, so it calls no task, no graph, no model and no
writer. It may run on the thread that hands events out: there is nothing to hand out meanwhile.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.engine.action import Action

_REACHING = frozenset(
    ("__import__", "breakpoint", "compile", "eval", "exec", "getattr", "globals", "locals", "vars")
)
_HARMLESS = frozenset(vars(builtins)) - _REACHING
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


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
