"""Messages of any model, shown piece by piece: what `perdure.config.get_message_writer` gives.

Chat models of LangChain stream by themselves. Whoever talks to a model by another client hands
the pieces of its answer to a writer, and readers of the run see the same as of any model: chunks
in `stream_mode="messages"`, message objects in `stream_events(version="v3").messages`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Literal, TypeAlias

__all__ = ["MessageChunk", "MessageWriter"]

Show: TypeAlias = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class MessageChunk:
    """A piece of a message, as readers get it where LangChain is not loaded. Pieces add up."""

    content: str = ""
    id: str | None = None
    reasoning: str = ""
    tool_call_chunks: list[dict[str, Any]] = field(default_factory=list)
    """Each with `index`, `id`, `name` and `args`, a piece of the JSON text of the arguments."""
    usage_metadata: dict[str, Any] | None = None
    chunk_position: Literal["last"] | None = None
    type: Literal["AIMessageChunk"] = "AIMessageChunk"

    def __add__(self, other: MessageChunk) -> MessageChunk:
        return replace(
            self,
            content=self.content + other.content,
            id=self.id or other.id,
            reasoning=self.reasoning + other.reasoning,
            tool_call_chunks=[*self.tool_call_chunks, *other.tool_call_chunks],
            usage_metadata=other.usage_metadata or self.usage_metadata,
            chunk_position=other.chunk_position or self.chunk_position,
        )


class _Block:
    """A block of a message that is being written: how it began, and the pieces of its one part that grows."""

    __slots__ = ("begin", "index", "part", "pieces")

    def __init__(self, index: int, begin: dict[str, Any], part: str) -> None:
        self.index = index
        self.begin = begin
        self.part = part
        self.pieces: list[str] = []

    def whole(self) -> dict[str, Any]:
        """The block so far."""
        return {**self.begin, self.part: "".join(self.pieces)}


class MessageWriter:
    """Writes one message. It begins with its first piece, and ends with `finish` or `fail`.

    As a context manager it finishes when the block ends, and fails with what the block raises:

        with get_message_writer() as answer:
            for event in client.chat.completions.create(..., stream=True):
                answer.text(event.choices[0].delta.content)
        return answer.message

    It may be used on any thread, by one at a time. Without readers it only keeps the message.
    """

    def __init__(
        self, id: str, *, chunks: Show | None = None, events: Show | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Made by `get_message_writer`.

        Args:
            id: Of the message.
            chunks: Takes chunks; None where nobody reads them.
            events: Takes content-block events; None where nobody reads them.
            about: `provider` and `model`, for readers of events.
        """
        self.id = id
        self.ended = False
        self._chunks = chunks
        self._events = events
        self._about = dict(about or {})
        self._begun = False
        self._blocks: dict[Any, _Block] = {}
        """Key -> block, in the order in which they began."""

    # pieces -----------------------------------------------------------------------------

    def text(self, delta: str | None) -> None:
        """Adds text. None and "" add nothing."""
        if delta:
            self._piece("text", {"type": "text"}, "text", delta, "text-delta")
            self._chunk(content=delta)

    def reasoning(self, delta: str | None) -> None:
        """Adds what the model thinks aloud. None and "" add nothing."""
        if delta:
            self._piece("reasoning", {"type": "reasoning"}, "reasoning", delta, "reasoning-delta")
            self._chunk(reasoning=delta)

    def tool_call(
        self, index: int = 0, *, id: str | None = None, name: str | None = None, args: str | None = None
    ) -> None:
        """Adds a piece of a tool call.

        Args:
            index: Which call of the message.
            id, name: Come with the call's first piece.
            args: A piece of the JSON text of the arguments.
        """
        begin = {"type": "tool_call_chunk", "id": id, "name": name}
        self._piece(("call", index), begin, "args", args or "", "tool-call-delta")
        self._chunk(tool_call_chunks=[{**begin, "args": args or "", "index": index}])

    def finish(self, *, usage: Mapping[str, Any] | None = None) -> None:
        """Ends the message. Does nothing when it has ended.

        Args:
            usage: `input_tokens`, `output_tokens`, `total_tokens`.
        """
        if self.ended:
            return
        self._begin()
        self.ended = True
        for block in self._blocks.values():
            content = _finished(block.whole())
            self._event({"event": "content-block-finish", "index": block.index, "content": content})
        finish: dict[str, Any] = {"event": "message-finish"}
        if usage is not None:
            finish["usage"] = dict(usage)
        self._event(finish)
        self._chunk(usage_metadata=None if usage is None else dict(usage), chunk_position="last")

    def fail(self, error: BaseException) -> None:
        """Ends the message where it is, with what went wrong. Does nothing when it has ended."""
        if self.ended:
            return
        self.ended = True
        if self._begun:
            self._event({"event": "error", "message": str(error), "error": error})

    def __enter__(self) -> MessageWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        else:
            self.fail(error)

    @property
    def message(self) -> dict[str, Any]:
        """The message so far: `role`, `id`, `content`, and `tool_calls` if there are any.

        A state with `add_messages` takes it. It has the id under which it was shown.
        """
        blocks = [block.whole() for block in self._blocks.values()]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        said: dict[str, Any] = {"role": "assistant", "id": self.id, "content": text}
        calls = [_finished(block) for block in blocks if block["type"] == "tool_call_chunk"]
        if calls:
            said["tool_calls"] = calls
        return said

    # telling ----------------------------------------------------------------------------

    def _begin(self) -> None:
        if self.ended:
            raise RuntimeError(f"message {self.id!r} has ended; ask get_message_writer() for another one")
        if not self._begun:
            self._begun = True
            start: dict[str, Any] = {"event": "message-start", "role": "ai", "id": self.id}
            self._event({**start, "metadata": self._about} if self._about else start)

    def _piece(self, key: Any, begin: dict[str, Any], part: str, delta: str, kind: str) -> None:
        block = self._blocks.get(key)
        if block is None or self.ended:
            self._begin()
            block = self._blocks[key] = _Block(len(self._blocks), begin, part)
            self._event({"event": "content-block-start", "index": block.index, "content": block.whole()})
        block.pieces.append(delta)
        if delta and self._events is not None:
            told = {"type": kind, part: delta}
            self._events({"event": "content-block-delta", "index": block.index, "delta": told})

    def _event(self, event: dict[str, Any]) -> None:
        if self._events is not None:
            self._events(event)

    def _chunk(self, **fields: Any) -> None:
        if self._chunks is not None:
            self._chunks(_chunk_of(self.id, fields))


def _chunk_of(id: str, fields: dict[str, Any]) -> Any:
    """A chunk of the kind that the program knows: LangChain's, once it is loaded."""
    messages = sys.modules.get("langchain_core.messages")
    if messages is None:
        return MessageChunk(id=id, **fields)
    thought = fields.pop("reasoning", None)
    if thought is not None:
        fields["content"] = [{"type": "reasoning", "reasoning": thought, "index": 0}]
    return messages.AIMessageChunk(**{"content": "", **fields}, id=id)


def _finished(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block as it is in the end; a tool call with its arguments read."""
    if block["type"] != "tool_call_chunk":
        return dict(block)
    try:
        args = json.loads(block["args"] or "{}")
    except ValueError:
        args = None
    if not isinstance(args, dict):
        return {**block, "type": "invalid_tool_call"}
    return {**block, "type": "tool_call", "args": args}
