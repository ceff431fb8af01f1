"""The door for another framework that lives in the same process.

A guest is told when runs, and pieces of user code in them, begin and end, and sees to it that
what that code calls finds the guest's own surroundings: callbacks, tags, metadata. The engine
knows only this door. LangChain is the one guest; it is let in once it has been imported by
somebody else, so that a run without it pays one look at `sys.modules`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from perdure.engine.frame import Frame
    from perdure.engine.live import Run
    from perdure.engine.program import Branch

Moment: TypeAlias = Literal["begin", "end", "fail"]


class Visit(Protocol):
    """The guest's view of one run, or of one attempt at a piece of its user code."""

    def tell(self, moment: Moment, value: Any = None) -> None:
        """It begins; it ended with a value; it failed with an error."""
        ...

    async def atell(self, moment: Moment, value: Any = None) -> None:
        """`tell` on an event loop."""
        ...


class _NoVisit:
    """A visit of nobody."""

    def tell(self, moment: Moment, value: Any = None) -> None:
        """Tells nobody."""

    async def atell(self, moment: Moment, value: Any = None) -> None:
        """Tells nobody."""


NO_VISIT = _NoVisit()


class Guest(Protocol):
    """The guest's companion of one run."""

    def visit_run(self, name: str) -> Visit | None:
        """A visit of the run itself, under the workflow's name; None when nobody listens."""
        ...

    def visit_resume(self) -> Visit | None:
        """A visit of the moment at which the run goes on from where its thread stopped."""
        ...

    def visit(self, frame: Frame) -> Visit | None:
        """Makes the frame's config for its next attempt, and gives a visit of it."""
        ...

    def visit_branch(self, frame: Frame, branch: Branch, argument: Any) -> Visit | None:
        """A visit of a conditional edge of the frame's node."""
        ...

    def put(self, frame: Frame) -> None:
        """Sets the guest's context variables for the frame's code, which is called next, here."""
        ...

    def saw(self, message_id: str | None) -> None:
        """User code has shown the message of this id itself."""
        ...


def guest_of(run: Run) -> Guest | None:
    """The guest's companion for a run; None while nobody has imported the guest."""
    modules = sys.modules
    if "langchain_core.runnables" not in modules and not (
        (run.sink.messages or run.sink.blocks) and "langchain_core.messages" in modules
    ):
        return None
    from perdure.ext.langchain import LangChain

    return LangChain(run)


def surroundings() -> Mapping[str, Any]:
    """The config of the guest's code that calls here; empty without one."""
    if "langchain_core.runnables" not in sys.modules:
        return {}
    from perdure.ext.langchain import surrounding_config

    return surrounding_config()


def joined_callbacks(given: Any, more: Any) -> Any:
    """Callbacks of two configs as those of one: lists, or managers of the guest's."""
    if isinstance(given, list) and isinstance(more, list):
        return [*given, *(handler for handler in more if handler not in given)]
    if not given or not more:
        return more or given
    from perdure.ext.langchain import join

    return join(given, more)
