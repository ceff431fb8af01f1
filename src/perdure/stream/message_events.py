"""Content-block events: how one message is told, bit by bit or all at once.

message-start, then for each block content-block-start, content-block-delta ...,
content-block-finish, then message-finish; or `error` at any point.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_EMPTIED: dict[str, dict[str, Any]] = {
    "text": {"text": ""},
    "reasoning": {"reasoning": ""},
    "tool_call": {"args": {}},
    "invalid_tool_call": {"args": ""},
}
_DELTAS = {"text": ("text-delta", "text"), "reasoning": ("reasoning-delta", "reasoning")}


def is_event(payload: Any) -> bool:
    """True for a content-block event, False for a message."""
    return isinstance(payload, dict) and "event" in payload


def is_whole_answer(message: Any) -> bool:
    """True for a complete message of a model: no chunk, and nobody else's words."""
    if isinstance(message, dict):
        return message.get("role", message.get("type")) in ("assistant", "ai")
    return getattr(message, "type", None) == "ai"


def message_to_events(message: Any) -> Iterator[dict[str, Any]]:
    """Tells a complete message, a LangChain one or a dict, as events."""
    plain = message if isinstance(message, dict) else _as_dict(message)
    start: dict[str, Any] = {"event": "message-start", "role": "ai"}
    if plain.get("id") is not None:
        start["id"] = plain["id"]
    yield start
    for index, block in enumerate(_blocks(plain)):
        kind = block.get("type", "text")
        yield {"event": "content-block-start", "index": index, "content": {**block, **_EMPTIED.get(kind, {})}}
        if kind in _DELTAS and block.get(_DELTAS[kind][1]):
            name, key = _DELTAS[kind]
            delta = {"type": name, key: block[key]}
            yield {"event": "content-block-delta", "index": index, "delta": delta}
        yield {"event": "content-block-finish", "index": index, "content": dict(block)}
    finish: dict[str, Any] = {"event": "message-finish"}
    for key, name in _FINISH.items():
        if plain.get(key):
            finish[name] = plain[key]
    yield finish


_FINISH = {
    "usage_metadata": "usage",
    "response_metadata": "metadata",
    "additional_kwargs": "additional_kwargs",
}


def _as_dict(message: Any) -> dict[str, Any]:
    return {
        "id": message.id,
        "content": message.content_blocks,
        **{key: getattr(message, key, None) for key in _FINISH},
    }


def _blocks(plain: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = plain.get("content")
    if isinstance(content, str):
        blocks: list[dict[str, Any]] = [{"type": "text", "text": content}] if content else []
    else:
        blocks = [
            {"type": "text", "text": part} if isinstance(part, str) else dict(part) for part in content or ()
        ]
    known = {block.get("id") for block in blocks if block.get("type") == "tool_call"}
    blocks.extend(
        {"type": "tool_call", **call} for call in map(_tool_call, plain.get("tool_calls") or ())
        if call.get("id") not in known
    )  # fmt: skip
    return blocks


def _tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """A tool call in the common shape, also of one as OpenAI's interface writes it."""
    function = call.get("function")
    if function is None:
        return {key: value for key, value in call.items() if key != "type"}
    return {"id": call.get("id"), **parsed_call(function.get("name"), function.get("arguments") or "")}


def parsed_call(name: str | None, args: str) -> dict[str, Any]:
    """Name and arguments of a call whose arguments are JSON; they stay text when they are none."""
    try:
        parsed = json.loads(args or "{}")
    except ValueError:
        parsed = None
    return {"name": name, "args": parsed if isinstance(parsed, dict) else args}


def delta_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The delta of a content-block-delta, also where it is spelt as a block."""
    if "delta" in event:
        return event["delta"]  # type: ignore[no-any-return]
    block = block_of(event)
    if block.get("type") in _DELTAS:
        name, key = _DELTAS[block["type"]]
        return {"type": name, key: block.get(key, "")}
    return {"type": "block-delta", "fields": block}


def block_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The block of a content-block event, by either spelling."""
    return event.get("content") or event.get("content_block") or {}
