"""Messages as dicts with a role: `{"role": "user", "content": "hi", "id": "..."}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.context import new_id

_ROLES = {"human": "user", "ai": "assistant"}


class PlainMessages:
    """Dicts as their writers made them, plus an id. The given dicts are left alone."""

    def coerce(self, items: Sequence[Any]) -> list[dict[str, Any]]:
        return [_coerced(item) for item in items]

    def identified(self, message: dict[str, Any]) -> dict[str, Any]:
        return message if message.get("id") is not None else {**message, "id": new_id()}

    def id_of(self, message: dict[str, Any]) -> str | None:
        return message.get("id")

    def is_removal(self, message: dict[str, Any]) -> bool:
        return message.get("role") == "remove"

    def formatted(self, messages: list[Any]) -> list[Any]:
        raise ImportError("format='langchain-openai' needs langchain-core: `pip install langchain-core`")


def _coerced(item: Any) -> dict[str, Any]:
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


KIND = PlainMessages()
