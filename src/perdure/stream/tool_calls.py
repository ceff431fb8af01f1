"""`run.tool_calls`: each call of a tool, with its output as the tool writes it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

from perdure.stream.channel import StreamChannel
from perdure.stream.protocol import ProtocolEvent
from perdure.stream.router import EventRouter
from perdure.stream.transformer import Scope, StreamTransformer


class ToolCallStream:
    """One call of a tool. Iterating it reads the pieces of output that the tool shows as it runs."""

    def __init__(self, tool_call_id: str, tool_name: str | None, input: Any) -> None:
        self.tool_call_id = tool_call_id
        self.tool_name = tool_name
        self.input = input
        self.output_deltas: StreamChannel[Any] = StreamChannel()
        self.output: Any = None
        """What the tool returned; the content where that is a tool message."""
        self.error: str | None = None
        """The text of what it raised."""
        self.completed = False

    def __iter__(self) -> Iterator[Any]:
        return iter(self.output_deltas)

    def __aiter__(self) -> AsyncIterator[Any]:
        return aiter(self.output_deltas)

    def finish(self, output: Any = None, error: str | None = None) -> None:
        """The tool has ended."""
        self.output = output
        self.error = error
        self.completed = True
        self.output_deltas.close()


class ToolCallTransformer(StreamTransformer):
    """Projects the calls of tools by the run's own nodes and tasks."""

    native: ClassVar[bool] = True
    methods: ClassVar[tuple[str, ...] | None] = ("tools",)
    required_stream_modes: ClassVar[tuple[str, ...]] = ("tools",)

    def __init__(self, scope: Scope = ()) -> None:
        super().__init__(scope)
        self.channel: StreamChannel[ToolCallStream] = StreamChannel()
        self._own = list(scope)
        self._open: dict[str, ToolCallStream] = {}
        self._router: EventRouter | None = None

    def init(self) -> dict[str, Any]:
        return {"tool_calls": self.channel}

    def on_register(self, router: EventRouter) -> None:
        self._router = router

    def process(self, event: ProtocolEvent) -> bool:
        if event["method"] == "tools" and event["params"]["namespace"] == self._own:
            self._take(event["params"]["data"])
        return True

    def _take(self, data: dict[str, Any]) -> None:
        call_id, kind = data["tool_call_id"], data["event"]
        if kind == "tool-started":
            self._begin(ToolCallStream(call_id, data.get("tool_name"), data.get("input")))
            return
        call = self._open.get(call_id)
        if call is None:
            return
        if kind == "tool-output-delta":
            call.output_deltas.push(data["delta"])
        elif kind == "tool-finished":
            self._open.pop(call_id).finish(content_of(data.get("output")))
        elif kind == "tool-error":
            self._open.pop(call_id).finish(error=data.get("message"))

    def _begin(self, call: ToolCallStream) -> None:
        self._open[call.tool_call_id] = call
        if self._router is not None:
            call.output_deltas.bind(self._router)
            self._router.hold((call.output_deltas,))
            call.output_deltas.keeps = self.channel.keeps
        self.channel.push(call)

    def finalize(self) -> None:
        self._end_all(None)

    def fail(self, err: BaseException) -> None:
        self._end_all(str(err))

    def _end_all(self, error: str | None) -> None:
        for call in self._open.values():
            call.finish(error=error)
        self._open.clear()


def content_of(output: Any) -> Any:
    """What a tool said: the content of a tool message, also of one written as a dict."""
    if isinstance(output, dict):
        path = output.get("id")
        if output.get("type") == "constructor" and isinstance(path, list) and path[-1:] == ["ToolMessage"]:
            return output.get("kwargs", {}).get("content")
        return output
    return output.content if getattr(output, "type", None) == "tool" else output
