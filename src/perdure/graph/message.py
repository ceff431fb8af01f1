"""Conversations as state: a reducer that merges messages by their ids.

With langchain-core installed messages become its message objects. Without it they are dicts
with `role`, `content` and `id`. Either way a message with a known id replaces the one that is
there, others are appended, and a removal (`RemoveMessage(id)`, or `{"role": "remove", "id":
id}`) deletes.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, Protocol, overload

from typing_extensions import TypedDict

from perdure.context import current_scope
from perdure.graph.builder import StateGraph
from perdure.warnings import PerdureDeprecatedSinceV10

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "MessageGraph",
    "MessagesState",
    "add_messages",
    "messages_delta_reducer",
    "push_message",
]

REMOVE_ALL_MESSAGES = "__remove_all__"
"""Id of a removal that deletes every message before it."""


class MessageKind(Protocol):
    """What has to be known of messages to merge them."""

    def coerce(self, item: Any) -> Any:
        """The message that `item` is or stands for. Raises for what is none."""
        ...

    def ready(self, items: Sequence[Any]) -> list[Any]:
        """The messages of all items, each with an id: its own, or a new one."""
        ...

    def ids(self, messages: Sequence[Any]) -> list[str]: ...
    def is_removal(self, message: Any) -> bool: ...
    def formatted(self, messages: list[Any]) -> list[Any]:
        """The messages with their contents as OpenAI has them."""
        ...


@functools.cache
def _installed() -> bool:
    try:
        return importlib.util.find_spec("langchain_core") is not None
    except ImportError:
        return False


def kind() -> MessageKind:
    """LangChain's messages where langchain-core is installed, else plain dicts."""
    if "langchain_core" in sys.modules or _installed():
        from perdure.graph import messages_langchain

        return messages_langchain.KIND
    from perdure.graph import messages_plain

    return messages_plain.KIND


@overload
def add_messages(
    left: None = None, right: None = None, *, format: Literal["langchain-openai"] | None = None
) -> Callable[[Any, Any], list[Any]]: ...
@overload
def add_messages(
    left: Any, right: Any, *, format: Literal["langchain-openai"] | None = None
) -> list[Any]: ...
def add_messages(left: Any = None, right: Any = None, *, format: str | None = None) -> Any:
    """Merges new messages into a conversation; the reducer for a key of messages.

    Called without messages it returns itself with the given format.

    Args:
        left: The conversation: a message or a list of them.
        right: What is new: messages, removals, or anything that stands for one, such as a
            string, a pair of role and content, or a dict.
        format: `langchain-openai` converts contents to the form that OpenAI's models take.

    Raises:
        ValueError: A removal names an id that no message has, or one argument is missing.
    """
    if format not in (None, "langchain-openai"):
        raise ValueError(f"Unrecognized {format=}. Expected one of 'langchain-openai', None.")
    if left is None and right is None:
        return functools.partial(add_messages, format=format) if format else add_messages
    if left is None or right is None:
        given = "right" if left is None else "left"
        raise ValueError(f"add_messages takes both 'left' and 'right'. Only received: {given!r}.")
    how = kind()
    merged = _merge(how, how.ready(_listed(left)), how.ready(_listed(right)))
    return how.formatted(merged) if format else merged


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def _merge(how: MessageKind, left: list[Any], right: list[Any]) -> list[Any]:
    merged, new = _after_last_clearing(how, left, right)
    places = {id_: place for place, id_ in enumerate(how.ids(merged))}
    removed: set[str] = set()
    for id_, message in zip(how.ids(new), new, strict=True):
        if how.is_removal(message):
            if id_ not in places:
                raise ValueError(f"Attempting to delete a message with an ID that doesn't exist ({id_!r})")
            removed.add(id_)
        elif id_ in places:
            removed.discard(id_)
            merged[places[id_]] = message
        else:
            places[id_] = len(merged)
            merged.append(message)
    if not removed:
        return merged
    return [message for id_, message in zip(how.ids(merged), merged, strict=True) if id_ not in removed]


def _after_last_clearing(how: MessageKind, left: list[Any], right: list[Any]) -> tuple[list[Any], list[Any]]:
    ids = how.ids(right)
    for place in range(len(right) - 1, -1, -1):
        if ids[place] == REMOVE_ALL_MESSAGES and how.is_removal(right[place]):
            return [], right[place + 1 :]
    return left, right


def messages_delta_reducer(state: Any, writes: Sequence[Any]) -> list[Any]:
    """`add_messages` for a DeltaChannel: takes all writes of a superstep.

    It merges them one after the other, so that it does not matter how they are batched.
    """
    merged: list[Any] = add_messages(state or [], [])
    for write in writes:
        merged = add_messages(merged, write)
    return merged


class MessagesState(TypedDict):
    """State of a graph that is one conversation. Subclass it to add keys."""

    messages: Annotated[list[Any], add_messages]


class MessageGraph(StateGraph[Any]):
    """A graph whose whole state is a list of messages. Use StateGraph and MessagesState."""

    def __init__(self) -> None:
        warnings.warn(
            "`MessageGraph` is deprecated. Please use `StateGraph` with a `messages` key instead.",
            PerdureDeprecatedSinceV10,
            stacklevel=2,
        )
        conversation: Any = Annotated[list[Any], add_messages]
        super().__init__(conversation)


def push_message(message: Any, *, state_key: str | None = "messages") -> Any:
    """Shows a message in the `messages` stream at once, and writes it to the state.

    Args:
        message: Needs an id, so that the one that is streamed and the one that is written are
            known to be the same.
        state_key: Key to write it to; None only shows it.

    Returns:
        The message.

    Raises:
        ContextError: outside of a run.
        ValueError: the message has no id.
    """
    scope = current_scope()
    how = kind()
    pushed = how.coerce(message)
    if how.ids([pushed]) == [None]:
        raise ValueError("Message ID is required: give the message an `id` of its own.")
    scope.message(pushed)
    if state_key is not None:
        scope.write(state_key, pushed)
    return pushed
