"""Messages as LangChain's objects. Imported only where langchain-core is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import (
    BaseMessage,
    BaseMessageChunk,
    RemoveMessage,
    convert_to_messages,
    convert_to_openai_messages,
    message_chunk_to_message,
)

from perdure.context import new_id


class LangChainMessages:
    """Message objects; what lacks an id is given one, in place."""

    def coerce(self, items: Sequence[Any]) -> list[BaseMessage]:
        return [_coerced(item) for item in items]

    def identified(self, message: BaseMessage) -> BaseMessage:
        if message.id is None:
            message.id = new_id()
        return message

    def id_of(self, message: BaseMessage) -> str | None:
        return message.id

    def is_removal(self, message: BaseMessage) -> bool:
        return isinstance(message, RemoveMessage)

    def formatted(self, messages: list[BaseMessage]) -> list[BaseMessage]:
        return convert_to_messages(convert_to_openai_messages(messages, include_id=True))


def _coerced(item: Any) -> BaseMessage:
    if isinstance(item, BaseMessageChunk):
        return message_chunk_to_message(item)
    if isinstance(item, BaseMessage):
        return item
    if isinstance(item, dict) and item.get("role") == "remove":
        return RemoveMessage(id=item["id"])
    (message,) = convert_to_messages([item])
    return message


KIND = LangChainMessages()
