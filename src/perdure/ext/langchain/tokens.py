"""What chat models say, token by token, for the streams of messages.

That this handler is among a model's callbacks makes the model stream, also when it was called
by `invoke`: LangChain asks whether a handler taps outputs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult

from perdure.constants import TAG_NOSTREAM
from perdure.ext.langchain.blocks import Blocks, blocks_of
from perdure.ext.langchain.callbacks import Listener

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from perdure.ext.langchain.scan import Shown
    from perdure.stream.sink import Namespace, Sink

_NOT_STREAMED = frozenset((TAG_NOSTREAM, "langsmith:nostream"))


class Tokens(Listener):
    """Shows the chunks of every chat model that a run's code calls."""

    of_models = True

    def __init__(self, sink: Sink, ns: Namespace, shown: Shown) -> None:
        self.sink = sink
        self.ns = ns
        self.shown = shown
        self.calls: dict[UUID, _Call] = {}

    def tap_output_iter(self, run_id: UUID, output: Iterator[Any]) -> Iterator[Any]:
        """Outputs of Runnables pass as they are; being asked is what makes models stream."""
        return output

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Outputs of Runnables pass as they are; being asked is what makes models stream."""
        return output

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: UUID, tags: Any = None, metadata: Any = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        """A model is called."""
        tags = [tag for tag in tags or () if not str(tag).startswith("seq:step")]
        if not metadata or not _NOT_STREAMED.isdisjoint(tags):
            return
        about = dict(metadata)
        about.pop("tags", None)
        if tags:
            about["tags"] = tags
        self.calls[run_id] = _Call(self, run_id, about)

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **kwargs: Any) -> None:
        """A model has said something."""
        call = self.calls.get(run_id)
        if call is not None and isinstance(chunk, ChatGenerationChunk):
            call.chunk(chunk)

    def on_stream_event(self, event: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A model that was asked for content-block events has given one."""
        call = self.calls.get(run_id)
        if call is not None:
            call.event(event)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """A model has said all."""
        call = self.calls.pop(run_id, None)
        if call is not None:
            said = [generation for several in response.generations[:1] for generation in several[:1]]
            call.end(said[0].message if said and isinstance(said[0], ChatGeneration) else None)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A model failed, or was left by whoever read its stream."""
        call = self.calls.pop(run_id, None)
        if call is not None:
            call.fail(error)


class _Call:
    """One call of a model. Its first piece decides whether the pieces are chunks or events."""

    __slots__ = ("blocks", "chunks", "events", "metadata", "named", "ns", "run_id", "said", "shown", "sink")

    def __init__(self, tokens: Tokens, run_id: UUID, metadata: dict[str, Any]) -> None:
        self.sink = tokens.sink
        self.ns = tokens.ns
        self.shown = tokens.shown
        self.run_id = run_id
        self.metadata = metadata
        self.named = {**metadata, "run_id": str(run_id)} if tokens.sink.blocks else metadata
        self.chunks = False
        self.blocks: Blocks | None = None
        """Made with the first chunk, where somebody reads events."""
        self.events = False
        self.said: str | None = None
        """Id of the message that was shown last."""

    def chunk(self, chunk: ChatGenerationChunk) -> None:
        """Shows a chunk."""
        if self.events:
            return
        sink, message = self.sink, chunk.message
        if message.id and message.id != self.said:
            self.said = message.id
            self.shown.add(message.id)
        if sink.blocks and not self.chunks:
            self.blocks = blocks_of(message.id or f"lc_run--{self.run_id}")
        self.chunks = True
        if sink.messages:
            sink.emit(self.ns, "messages", (message, self.metadata))
        if self.blocks is not None:
            for event in self.blocks.push(chunk):
                sink.emit(self.ns, "blocks", (event, self.named))

    def event(self, event: Any) -> None:
        """Shows an event, unless the same comes as chunks."""
        if not self.chunks:
            self.events = True
            self._emit((event,))

    def end(self, message: BaseMessage | None) -> None:
        """Closes the message; one that did not come in pieces is shown as a whole."""
        sink, ns, shown = self.sink, self.ns, self.shown
        fresh = message is not None and (self.chunks or message.id not in shown)
        if self.blocks is not None:
            self._emit(self.blocks.end())
        elif fresh and not self.events and sink.blocks:
            sink.emit(ns, "blocks", (message, self.metadata))
        if fresh and not self.chunks and sink.messages:
            sink.emit(ns, "messages", (message, self.metadata))
        if message is not None and message.id:
            shown.add(message.id)

    def fail(self, error: BaseException) -> None:
        """Closes the message with what ended it."""
        if self.blocks is not None and isinstance(error, GeneratorExit):
            self._emit(self.blocks.end())
            return
        if self.blocks is not None:
            self.blocks.drop()
        if self.blocks is not None or self.events:
            self._emit(({"event": "error", "message": str(error), "error": error},))

    def _emit(self, events: Any) -> None:
        if self.sink.blocks:
            for event in events:
                self.sink.emit(self.ns, "blocks", (event, self.named))
