"""Where results of nodes and tasks lie in a cache. Pure."""

from __future__ import annotations

import functools
import inspect
import marshal
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_128_hexdigest

from perdure.serde.digest import digest

if TYPE_CHECKING:
    from perdure.cache.base import Namespace
    from perdure.engine.action import Action
    from perdure.engine.program import Program

_WRITES = "__pregel_ns_writes"
"""The documented begin of such namespaces."""


def namespace_of_task(action: Action) -> Namespace:
    """Where the results of a task lie, whichever workflow calls it."""
    return (_WRITES, _identity(action.fn))


def namespace_of_node(name: str, action: Action) -> Namespace:
    """Where the results of a node lie."""
    return (_WRITES, _identity(action.fn), name)


def namespaces_of_nodes(program: Program, names: Iterable[str] | None) -> list[Namespace]:
    """Where the results of nodes lie; of all of them for None. Names that are no node's are left out."""
    nodes = program.nodes
    wanted = nodes if names is None else names
    return [namespace_of_node(name, nodes[name].action) for name in wanted if name in nodes]


def _identity(fn: Any) -> str:
    """A name that other code does not have; what a partial or a method was given counts, too."""
    if isinstance(fn, functools.partial):
        given = (fn.args, sorted(fn.keywords.items()))
        return f"{_identity(fn.func)}({digest(given)})" if fn.args or fn.keywords else _identity(fn.func)
    if inspect.ismethod(fn):
        return f"{_identity(fn.__func__)}({digest(fn.__self__)})"
    if not inspect.isroutine(fn):
        return "__dynamic__"
    code = getattr(fn, "__code__", None)
    name = f"{fn.__module__}.{fn.__qualname__}"
    if code is not None and code.co_name == "<lambda>":
        return f"{name}({xxh3_128_hexdigest(marshal.dumps(code, 2))})"
    return name
