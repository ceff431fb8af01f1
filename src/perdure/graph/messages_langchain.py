"""Messages as LangChain's objects. Imported only where langchain-core is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    convert_to_openai_messages,
    message_chunk_to_message,
)

from perdure.context import new_id

_FINAL = frozenset((HumanMessage, AIMessage, SystemMessage, ToolMessage, RemoveMessage))
"""Classes whose objects need no conversion; asked first, as a conversation is mostly of these."""


class LangChainMessages:
    """Message objects; what lacks an id is given one, in place."""

    def coerce(self, item: Any) -> BaseMessage:
        if isinstance(item, BaseMessageChunk):
            return message_chunk_to_message(item)
        if isinstance(item, BaseMessage):
            return item
        if isinstance(item, dict) and item.get("role") == "remove":
            return RemoveMessage(id=item["id"])
        (message,) = convert_to_messages([item])
        return message

    def ready(self, items: Sequence[Any]) -> list[BaseMessage]:
        return [
            item if type(item) in _FINAL and item.id is not None else self._identified(item) for item in items
        ]

    def _identified(self, item: Any) -> BaseMessage:
        message = self.coerce(item)
        if message.id is None:
            message.id = new_id()
        return message

    def ids(self, messages: Sequence[BaseMessage]) -> list[Any]:
        return [message.id for message in messages]

    def is_removal(self, message: BaseMessage) -> bool:
        return isinstance(message, RemoveMessage)

    def formatted(self, messages: list[BaseMessage]) -> list[BaseMessage]:
        return convert_to_messages(convert_to_openai_messages(messages, include_id=True))


KIND = LangChainMessages()
