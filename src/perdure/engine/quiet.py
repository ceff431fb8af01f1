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
    (
        "__import__", "breakpoint", "compile", "eval", "exec", "filter", "getattr", "globals", "locals",
        "map", "vars",
    )
)  # fmt: skip
_HARMLESS = frozenset(vars(builtins)) - _REACHING
_LOOKING = frozenset(("abs", "all", "any", "bool", "int", "isinstance", "len", "max", "min", "str", "type"))
_PLAIN = (bool, int, float, complex, str, bytes, type(None))

_ELSEWHERE = frozenset(
    (
        "LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "STORE_ATTR", "DELETE_ATTR",
        "PUSH_NULL", "CALL_FUNCTION_EX", "KW_NAMES", "CALL_KW",
    )
)  # fmt: skip
"""What leads to code that is not seen here: attributes, which may have the name of a builtin; calls of
what has no name, be it found in the state; and what a builtin is told by keyword to call."""
_LOOKS = frozenset(
    (
        "RESUME", "NOP", "CACHE", "EXTENDED_ARG", "PRECALL", "CALL", "POP_TOP", "COPY", "SWAP",
        "COPY_FREE_VARS",
        "LOAD_CONST", "LOAD_SMALL_INT", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_FAST", "LOAD_FAST_CHECK",
        "LOAD_FAST_BORROW", "LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW", "STORE_FAST",
        "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "BINARY_SUBSCR", "BINARY_SLICE", "BINARY_OP",
        "COMPARE_OP", "CONTAINS_OP", "IS_OP", "UNARY_NOT", "UNARY_NEGATIVE", "TO_BOOL", "BUILD_LIST",
        "BUILD_TUPLE", "BUILD_MAP", "BUILD_CONST_KEY_MAP", "BUILD_SLICE", "LIST_EXTEND", "NOT_TAKEN",
        "JUMP_FORWARD", "JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP", "POP_JUMP_IF_FALSE",
        "POP_JUMP_IF_TRUE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE", "POP_JUMP_FORWARD_IF_FALSE",
        "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE",
        "RETURN_VALUE", "RETURN_CONST",
    )
)  # fmt: skip
"""All that the code of a brief function may consist of, by the names of Python 3.11 to 3.14. What a later
Python calls otherwise is taken for something else, and the function runs on a thread."""


def is_quiet(action: Action) -> bool:
    """True when the code of an action reaches nothing but the state, builtins and plain values."""
    fn = action.fn
    if action.inject or type(fn) is not FunctionType:
        return False
    reached = [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
    codes = list(_codes(fn.__code__))
    for name in {name for code in codes for name in code.co_names}:
        if name in fn.__globals__:
            reached.append(fn.__globals__[name])
        elif name not in _HARMLESS:
            return False
    for cell in fn.__closure__ or ():
        try:
            reached.append(cell.cell_contents)
        except ValueError:  # Not bound yet: it may become anything.
            return False
    if not all(isinstance(value, _PLAIN) for value in reached):
        return False
    return all(_ELSEWHERE.isdisjoint(_steps(code)) for code in codes)


def is_brief(action: Action) -> bool:
    """True when the code of an action only looks at the state, without waiting and without a loop."""
    if not is_quiet(action):
        return False
    code = action.fn.__code__
    named = {name for name in code.co_names if name not in action.fn.__globals__}
    return named <= _LOOKING and _steps(code) <= _LOOKS


def _steps(code: CodeType) -> set[str]:
    return {step.opname for step in dis.get_instructions(code)}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
