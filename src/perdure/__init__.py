"""Durable execution for Python: workflows that pause, fail and are killed, and go on where they were.

    from perdure import entrypoint, task, interrupt, Command

Functions: `entrypoint`, `task`. Graphs: `StateGraph`, `START`, `END`, `MessagesState`,
`add_messages`, `Send`. Pauses: `interrupt`, `Command`. Ends: `RunControl`, `GraphDrained`.
Savers live in `perdure.checkpoint.memory` and `perdure.checkpoint.sqlite`.

Names are loaded when they are first used, so that a program pays only for what it needs.
"""

import importlib
from typing import TYPE_CHECKING, Any

from perdure.version import __version__

if TYPE_CHECKING:
    from perdure.errors import GraphDrained, NonDeterminismError, PerdureError, ThreadBusyError
    from perdure.func import entrypoint, task
    from perdure.graph import END, START, MessagesState, StateGraph, add_messages
    from perdure.runtime import RunControl, Runtime, get_runtime
    from perdure.types import Command, Interrupt, Overwrite, RetryPolicy, Send, interrupt

_HOMES = {
    "perdure.errors": ("GraphDrained", "NonDeterminismError", "PerdureError", "ThreadBusyError"),
    "perdure.func": ("entrypoint", "task"),
    "perdure.graph": ("END", "START", "MessagesState", "StateGraph", "add_messages"),
    "perdure.runtime": ("RunControl", "Runtime", "get_runtime"),
    "perdure.types": ("Command", "Interrupt", "Overwrite", "RetryPolicy", "Send", "interrupt"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])


__all__ = [
    # functions
    "entrypoint",
    "task",
    # graphs
    "END",
    "START",
    "MessagesState",
    "Overwrite",
    "Send",
    "StateGraph",
    "add_messages",
    # pauses and policies
    "Command",
    "Interrupt",
    "RetryPolicy",
    "interrupt",
    # runs
    "RunControl",
    "Runtime",
    "get_runtime",
    # errors
    "GraphDrained",
    "NonDeterminismError",
    "PerdureError",
    "ThreadBusyError",
    "__version__",
]
