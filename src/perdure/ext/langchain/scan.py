"""Complete messages that nodes and tasks return, for the streams of messages."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from perdure.constants import TAG_HIDDEN
from perdure.context import new_id
from perdure.types import Command

if TYPE_CHECKING:
    from perdure.engine.frame import Frame


class Shown:
    """Ids of the messages that a run's listeners have had."""

    def __init__(self, above: Shown | None = None) -> None:
        self._ids: set[str] = set()
        self._above = above
        """Of the listeners above, who hear of this run as well."""

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._ids

    def add(self, message_id: str) -> None:
        """Notes a message."""
        self._ids.add(message_id)
        if self._above is not None:
            self._above.add(message_id)


def scan_of(frame: Frame, shown: Shown) -> Scan | None:
    """Looks for messages in what a frame returns; None where nobody wants to see them."""
    sink = frame.run.sink
    if not (sink.messages or sink.blocks) or TAG_HIDDEN in (frame.config.get("tags") or ()):
        return None
    return Scan(frame, shown)


class Scan:
    """Looks for the messages that one frame returns, and shows those that are new.

    Messages of the frame's input are not, nor are those that a model has streamed.
    """

    def __init__(self, frame: Frame, shown: Shown) -> None:
        self.frame = frame
        self.shown = shown
        self.given = {message.id for part in _inputs(frame) for message in messages_in(part) if message.id}

    def show(self, output: Any) -> None:
        """Streams the new messages of an output. Those without an id get one."""
        frame = self.frame
        run = frame.run
        metadata = {**(frame.config.get("metadata") or {}), "ls_integration": "langgraph"}
        if metadata.get("checkpoint_ns") == frame.ns:
            del metadata["checkpoint_ns"]  # Metadata of models alone repeats it.
        for message in messages_in(output):
            if message.id is None:
                message.id = new_id()
            if message.id in self.shown or message.id in self.given:
                continue
            self.shown.add(message.id)
            run.tell.whole_message(message, metadata)


def messages_in(value: Any) -> Iterator[BaseMessage]:
    """The messages of an output: itself, its elements, its fields and their elements."""
    if isinstance(value, Command):
        yield from messages_in(value.update)
    elif isinstance(value, BaseMessage):
        yield value
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        for element in value:
            if isinstance(element, Command):
                yield from messages_in(element.update)
            elif isinstance(element, BaseMessage):
                yield element
    else:
        for field in _fields(value):
            yield from _listed(field)


def _fields(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, BaseModel):
        yield from (getattr(value, name) for name in type(value).model_fields)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, field.name) for field in dataclasses.fields(value))


def _listed(value: Any) -> Iterator[BaseMessage]:
    if isinstance(value, BaseMessage):
        yield value
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        yield from (element for element in value if isinstance(element, BaseMessage))


def _inputs(frame: Frame) -> Sequence[Any]:
    return (*frame.args, *frame.kwargs.values())
