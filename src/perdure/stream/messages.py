"""`run.messages`: each message of a model as an object to read while the model writes it."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

from perdure.stream import message_stream
from perdure.stream.channel import StreamChannel
from perdure.stream.message_events import is_event, is_whole_answer, message_to_events
from perdure.stream.protocol import ProtocolEvent
from perdure.stream.router import EventRouter
from perdure.stream.transformer import Scope, StreamTransformer


@functools.cache
def stream_classes() -> tuple[type[Any], type[Any]]:
    """The classes for messages of sync and async runs: LangChain's where it is installed."""
    try:
        from langchain_core.language_models.chat_model_stream import AsyncChatModelStream, ChatModelStream
    except ImportError:
        return message_stream.ChatModelStream, message_stream.AsyncChatModelStream
    return ChatModelStream, AsyncChatModelStream


class MessagesTransformer(StreamTransformer):
    """Projects the messages that models of its own graph write, or that its nodes return whole.

    A message appears when it starts, before its first token. Tool messages, and what people or
    prompts say, do not appear.
    """

    native: ClassVar[bool] = True
    methods: ClassVar[tuple[str, ...] | None] = ("messages",)
    required_stream_modes: ClassVar[tuple[str, ...]] = ("messages",)

    def __init__(self, scope: Scope = ()) -> None:
        super().__init__(scope)
        self.channel: StreamChannel[Any] = StreamChannel()
        self._own = list(scope)
        self._open: dict[Any, Any] = {}
        """Key of a model call -> its message; None for one that is not shown."""
        self._router: EventRouter | None = None

    def init(self) -> dict[str, Any]:
        return {"messages": self.channel}

    def on_register(self, router: EventRouter) -> None:
        self._router = router

    def process(self, event: ProtocolEvent) -> bool:
        if event["method"] == "messages":
            params = event["params"]
            if params["namespace"] == self._own:
                payload, metadata = params["data"]
                self._take(payload, metadata)
        return True

    def _take(self, payload: Any, metadata: dict[str, Any]) -> None:
        if is_event(payload):
            self._route(payload, metadata)
        elif is_whole_answer(payload):
            stream = None
            for event in message_to_events(payload):
                if stream is None:
                    stream = self._begin(event, metadata, show=False)
                else:
                    stream.dispatch(event)
            self.channel.push(stream)

    def _route(self, event: dict[str, Any], metadata: dict[str, Any]) -> None:
        key = metadata.get("run_id") or metadata.get("langgraph_checkpoint_ns")
        kind = event["event"]
        if kind == "message-start":
            shown = event.get("role", "ai") != "tool"
            self._open[key] = self._begin(event, metadata, show=True) if shown else None
            return
        stream = self._open.get(key)
        if stream is not None:
            if kind == "error" and isinstance(event.get("error"), BaseException):
                stream.fail(event["error"])
            else:
                stream.dispatch(event)
        if kind in ("message-finish", "error"):
            self._open.pop(key, None)

    def _begin(self, event: dict[str, Any], metadata: dict[str, Any], *, show: bool) -> Any:
        router = self._router
        is_async = router is None or router.is_async
        stream = stream_classes()[is_async](
            namespace=[],
            node=metadata.get("langgraph_node"),
            message_id=event.get("message_id") or event.get("id"),
        )
        if router is not None and is_async:
            stream.set_arequest_more(router.apull)
        elif router is not None:
            stream.set_request_more(router.pull)
        stream.dispatch(event)
        if show:
            self.channel.push(stream)
        return stream

    def finalize(self) -> None:
        self._open.clear()

    def fail(self, err: BaseException) -> None:
        for stream in self._open.values():
            if stream is not None:
                stream.fail(err)
        self._open.clear()
