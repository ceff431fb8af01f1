"""What a caller says about a run, and doors to what is around the code that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import TypedDict

from perdure.context import current_scope

if TYPE_CHECKING:
    from uuid import UUID

    from perdure.messages import MessageWriter
    from perdure.store.base import BaseStore

__all__ = ["RunnableConfig", "get_config", "get_message_writer", "get_store", "get_stream_writer"]


class RunnableConfig(TypedDict, total=False):
    """The config of a run. The same keys as LangChain's, which is accepted wherever this is."""

    tags: list[str]
    """Marks for traces; inherited by what the run calls."""
    metadata: dict[str, Any]
    """Stored with every checkpoint of the run."""
    callbacks: Any
    """LangChain's callback handlers."""
    run_name: str
    max_concurrency: int | None
    """How many steps of user code may run at once."""
    recursion_limit: int
    """How many supersteps the run may take."""
    configurable: dict[str, Any]
    """`thread_id`, `checkpoint_ns`, `checkpoint_id`, and whatever the caller puts there."""
    run_id: UUID | None


def get_config() -> RunnableConfig:
    """The config of the node, task or entrypoint that is running. Raises ContextError outside."""
    return current_scope().config


def get_store() -> BaseStore:
    """The run's store. Raises ContextError outside of a run."""
    return cast("BaseStore", current_scope().runtime.store)


def get_stream_writer() -> Callable[[Any], None]:
    """Writes to the run's `custom` stream; without a listener it does nothing.

    Raises ContextError outside of a run.
    """
    return current_scope().writer


def get_message_writer(
    *, id: str | None = None, provider: str | None = None, model: str | None = None
) -> MessageWriter:
    """Shows a message piece by piece to whoever reads the run's messages, as it comes from a model.

    For clients that are no chat models of LangChain; those stream by themselves. Without a
    reader nothing is shown, and the message is there all the same.

    Args:
        id: Of the message; else one is made that is the same again when this code is replayed.
        provider, model: Who writes, for readers of content-block events.

    Raises ContextError outside of a run.
    """
    about = {key: value for key, value in (("provider", provider), ("model", model)) if value is not None}
    return current_scope().message_writer(id, about)
