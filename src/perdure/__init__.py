"""Durable execution for Python: workflows that pause, fail and are killed, and go on where they were.

    from perdure import entrypoint, task, interrupt, Command

Functions: `entrypoint`, `task`. Graphs: `StateGraph`, `START`, `END`, `MessagesState`,
`add_messages`, `Send`. Pauses: `interrupt`, `Command`. Ends: `RunControl`, `GraphDrained`.
Savers live in `perdure.checkpoint.memory` and `perdure.checkpoint.sqlite`.
"""

from perdure.errors import GraphDrained, NonDeterminismError, PerdureError, ThreadBusyError
from perdure.func import entrypoint, task
from perdure.graph import END, START, MessagesState, StateGraph, add_messages
from perdure.runtime import RunControl, Runtime, get_runtime
from perdure.types import Command, Interrupt, Overwrite, RetryPolicy, Send, interrupt
from perdure.version import __version__

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
