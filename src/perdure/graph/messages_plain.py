"""Messages as dicts with a role: `{"role": "user", "content": "hi", "id": "..."}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.context import new_id

_ROLES = {"human": "user", "ai": "assistant"}


class PlainMessages:
    """Dicts as their writers made them, plus an id. The given dicts are left alone."""

    def coerce(self, item: Any) -> dict[str, Any]:
        if isinstance(item, dict):
            return item
        if isinstance(item, str):
            return {"role": "user", "content": item}
        if isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], str):
            return {"role": _ROLES.get(item[0], item[0]), "content": item[1]}
        raise TypeError(
            f"{item!r} is no message: give a dict with role and content, a pair of them, or a string "
            "(other kinds need langchain-core)"
        )

    def ready(self, items: Sequence[Any]) -> list[dict[str, Any]]:
        return [
            item if type(item) is dict and item.get("id") is not None else self._identified(item)
            for item in items
        ]

    def _identified(self, item: Any) -> dict[str, Any]:
        message = self.coerce(item)
        return message if message.get("id") is not None else {**message, "id": new_id()}

    def ids(self, messages: Sequence[dict[str, Any]]) -> list[Any]:
        return [message.get("id") for message in messages]

    def is_removal(self, message: dict[str, Any]) -> bool:
        return message.get("role") == "remove"

    def formatted(self, messages: list[Any]) -> list[Any]:
        raise ImportError("format='langchain-openai' needs langchain-core: `pip install langchain-core`")


KIND = PlainMessages()
