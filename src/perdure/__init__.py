"""Durable execution for Python: workflows that pause, fail and are killed, and go on where they were.

    from perdure import entrypoint, task, interrupt, Command

Functions: `entrypoint`, `task`. Graphs: `StateGraph`, `START`, `END`, `MessagesState`,
`add_messages`, `Send`. Pauses: `interrupt`, `Command`. Ends: `RunControl`, `GraphDrained`.
Savers live in `perdure.checkpoint.memory` and `perdure.checkpoint.sqlite`.

Names are loaded when they are first used, so that a program pays only for what it needs.
"""

from typing import TYPE_CHECKING

from perdure import doors
from perdure.version import __version__

if TYPE_CHECKING:
    from perdure.checkpoint.memory import InMemorySaver
    from perdure.checkpoint.sqlite import SqliteSaver
    from perdure.errors import GraphDrained, NonDeterminismError, PerdureError, ThreadBusyError
    from perdure.func import entrypoint, task
    from perdure.graph import END, START, MessagesState, StateGraph, add_messages
    from perdure.runtime import RunControl, Runtime, get_runtime
    from perdure.types import Command, Interrupt, Overwrite, RetryPolicy, Send, interrupt

__getattr__, __dir__ = doors.late(
    __name__,
    {
        "perdure.checkpoint.memory": ("InMemorySaver",),
        "perdure.checkpoint.sqlite": ("SqliteSaver",),
        "perdure.errors": ("GraphDrained", "NonDeterminismError", "PerdureError", "ThreadBusyError"),
        "perdure.func": ("entrypoint", "task"),
        "perdure.graph": ("END", "START", "MessagesState", "StateGraph", "add_messages"),
        "perdure.runtime": ("RunControl", "Runtime", "get_runtime"),
        "perdure.types": ("Command", "Interrupt", "Overwrite", "RetryPolicy", "Send", "interrupt"),
    },
)

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
    # savers
    "InMemorySaver",
    "SqliteSaver",
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
