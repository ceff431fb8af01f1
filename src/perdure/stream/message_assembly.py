"""Puts a message together from its content-block events; without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.stream.message_events import block_of, delta_of, parsed_call


class Assembly:
    """What has come of a message: its deltas by kind, its blocks, and at the end the message."""

    def __init__(self, message_id: str | None = None) -> None:
        self.message_id = message_id
        self.events: list[Mapping[str, Any]] = []
        self.text_deltas: list[str] = []
        self.reasoning_deltas: list[str] = []
        self.call_deltas: list[dict[str, Any]] = []
        self.done = False
        self.error: BaseException | None = None
        self.message: Any = None
        self._blocks: dict[Any, dict[str, Any]] = {}
        self._metadata: dict[str, Any] = {}

    def dispatch(self, event: Mapping[str, Any]) -> None:
        """Takes an event. Unknown ones are kept, and change nothing."""
        self.events.append(event)
        take = self._takes.get(event.get("event", ""))
        if take is not None:
            take(self, event)

    def fail(self, error: BaseException) -> None:
        """The message will not be finished; readers get what there is, then the error."""
        if not self.done:
            self.error = error
            self.done = True

    # events -----------------------------------------------------------------------------

    def _start(self, event: Mapping[str, Any]) -> None:
        self.message_id = event.get("message_id") or event.get("id") or self.message_id
        metadata: Mapping[str, Any] = event.get("metadata") or {}
        for key, value in metadata.items():
            self._metadata[_METADATA.get(key, key)] = value

    def _block_start(self, event: Mapping[str, Any]) -> None:
        block = dict(block_of(event))
        self._blocks[event.get("index")] = block
        self._tell_call(event.get("index"), block, block.get("args"))

    def _block_delta(self, event: Mapping[str, Any]) -> None:
        index, delta = event.get("index"), delta_of(event)
        block = self._blocks.setdefault(index, {"type": _BLOCK_OF.get(delta.get("type", ""), "text")})
        kind = delta.get("type")
        if kind == "text-delta":
            self.text_deltas.append(delta["text"])
            block["text"] = block.get("text", "") + delta["text"]
        elif kind == "reasoning-delta":
            self.reasoning_deltas.append(delta["reasoning"])
            block["reasoning"] = block.get("reasoning", "") + delta["reasoning"]
        elif kind == "tool-call-delta":
            self._more_args(index, block, delta["args"])
        elif kind == "data-delta":
            block["data"] = block.get("data", "") + delta["data"]
        elif kind == "block-delta":
            fields = dict(delta.get("fields") or {})
            args = fields.pop("args", None) if block.get("type") == "tool_call_chunk" else None
            block.update(fields)
            if args:
                self._more_args(index, block, args)

    def _more_args(self, index: Any, block: dict[str, Any], args: str) -> None:
        block["args"] = (block.get("args") or "") + args
        self._tell_call(index, block, args)

    def _tell_call(self, index: Any, block: dict[str, Any], args: Any) -> None:
        if block.get("type") == "tool_call_chunk":
            chunk = {key: block.get(key) for key in ("type", "id", "name")}
            self.call_deltas.append({**chunk, "args": args or "", "index": index})

    def _block_finish(self, event: Mapping[str, Any]) -> None:
        block = dict(block_of(event))
        if block:
            before = self._blocks.get(event.get("index"), {})
            self._late("text", block, before, self.text_deltas)
            self._late("reasoning", block, before, self.reasoning_deltas)
            self._blocks[event.get("index")] = block

    def _late(self, kind: str, block: dict[str, Any], before: Mapping[str, Any], deltas: list[str]) -> None:
        """Text that came with the end of its block only."""
        if block.get("type") == kind and block.get(kind) and not before.get(kind):
            deltas.append(block[kind])

    def _finish(self, event: Mapping[str, Any]) -> None:
        self._metadata.update(event.get("metadata") or {})
        self.message = self._whole(event)
        self.done = True

    def _error(self, event: Mapping[str, Any]) -> None:
        self.fail(RuntimeError(event.get("message") or "the model failed"))

    _takes = {  # noqa: RUF012 - never changed
        "message-start": _start,
        "content-block-start": _block_start,
        "content-block-delta": _block_delta,
        "content-block-finish": _block_finish,
        "message-finish": _finish,
        "error": _error,
    }

    # the whole --------------------------------------------------------------------------

    def whole_text(self) -> str:
        """The text so far."""
        return "".join(self.text_deltas)

    def whole_reasoning(self) -> str:
        """The reasoning so far."""
        return "".join(self.reasoning_deltas)

    def whole_calls(self) -> list[dict[str, Any]]:
        """The tool calls so far."""
        return [block for block in map(_finished, self._blocks.values()) if block.get("type") == "tool_call"]

    def _whole(self, event: Mapping[str, Any]) -> dict[str, Any]:
        blocks = [_finished(block) for block in self._blocks.values()]
        message: dict[str, Any] = {
            "role": "assistant",
            "content": self.whole_text() if all(b.get("type") == "text" for b in blocks) else blocks,
            "id": self.message_id,
        }
        calls = [block for block in blocks if block.get("type") == "tool_call"]
        broken = [block for block in blocks if block.get("type") == "invalid_tool_call"]
        more = {
            "tool_calls": calls,
            "invalid_tool_calls": broken,
            "usage_metadata": event.get("usage"),
            "additional_kwargs": event.get("additional_kwargs"),
            "response_metadata": self._metadata,
        }
        return {**message, **{key: value for key, value in more.items() if value}}


_METADATA = {"provider": "model_provider", "model": "model_name"}
_BLOCK_OF = {"reasoning-delta": "reasoning", "tool-call-delta": "tool_call_chunk"}


def _finished(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") != "tool_call_chunk":
        return block
    call = parsed_call(block.get("name"), block.get("args") or "")
    kind = "tool_call" if isinstance(call["args"], dict) else "invalid_tool_call"
    return {"type": kind, "id": block.get("id"), **call}
