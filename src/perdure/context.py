"""The one context variable: what is running here.

The engine sets it around every piece of user code; `interrupt`, tasks, `get_config` and the
like find their run through it. Nothing else of a run travels hidden.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from perdure.errors import ContextError

if TYPE_CHECKING:
    from perdure.config import RunnableConfig
    from perdure.messages import MessageWriter
    from perdure.runtime import Runtime
    from perdure.types import StreamWriter


class Scope(Protocol):
    """What user code reaches of the run that it is part of."""

    @property
    def config(self) -> RunnableConfig: ...

    @property
    def runtime(self) -> Runtime[Any]: ...

    @property
    def writer(self) -> StreamWriter: ...

    def call(self, task: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Starts a call of a task, or finds its recorded outcome; returns a future."""
        ...

    def interrupt(self, value: Any, response_schema: Any = None) -> Any:
        """Returns the answer to this question, or pauses the run."""
        ...

    def write(self, channel: str, value: Any) -> None:
        """Adds a write to those of the running node."""
        ...

    def message(self, message: Any) -> None:
        """Tells the listeners of `messages` about a message."""
        ...

    def message_writer(self, id: str | None, about: Mapping[str, Any]) -> MessageWriter:
        """A writer that shows one message to the listeners of `messages`, piece by piece."""
        ...

    def new_id(self) -> str:
        """An id that is the same again when this piece of code is replayed."""
        ...

    def holds(self, thread_id: str) -> bool:
        """Whether the run, or one around it, holds the thread."""
        ...


scope_var: ContextVar[Scope | None] = ContextVar("perdure_scope", default=None)

id_source: ContextVar[Callable[[], str] | None] = ContextVar("perdure_id_source", default=None)
"""Where ids come from while a run applies writes, when no code of a user's runs."""


def current_scope() -> Scope:
    """What is running here.

    Raises:
        ContextError: Nothing is: the code was called from outside a run, or from a thread
            that was started without the caller's context.
    """
    scope = scope_var.get()
    if scope is None:
        raise ContextError(
            "called outside of a runnable context: there is no workflow running here. Call it inside an "
            "entrypoint, a task or a node; in a thread of your own, start the thread's function with "
            "contextvars.copy_context().run(...)"
        )
    return scope


def holds_thread(thread_id: str) -> bool:
    """Whether the code that calls is part of a run that holds the thread."""
    scope = scope_var.get()
    return scope is not None and scope.holds(thread_id)


def new_id() -> str:
    """A fresh id, UUID-shaped; inside a run the same again on replay."""
    source = id_source.get()
    if source is not None:
        return source()
    scope = scope_var.get()
    if scope is not None:
        return scope.new_id()
    text = os.urandom(16).hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"
