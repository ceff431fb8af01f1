"""What tools do, for the stream `tools`."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from uuid import UUID

from perdure.constants import TAG_NOSTREAM
from perdure.errors import GraphBubbleUp
from perdure.ext.langchain.callbacks import Listener

if TYPE_CHECKING:
    from perdure.stream.sink import Namespace, Sink

tool_call_writer: ContextVar[Callable[[Any], None] | None] = ContextVar(
    "perdure_tool_call_writer", default=None
)
"""Shows a part of the output of the tool that runs here; None where nobody reads `tools`."""


class ToolCalls(Listener):
    """Shows every tool that a run's code calls."""

    def __init__(self, sink: Sink, ns: Namespace) -> None:
        self.sink = sink
        self.ns = ns
        self.calls: dict[UUID, str] = {}

    def on_tool_start(
        self, serialized: Any, input_str: str, *, run_id: UUID, tags: Any = None, inputs: Any = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        """A tool is called."""
        if TAG_NOSTREAM in (tags or ()):
            return
        call_id = self.calls[run_id] = str(kwargs.get("tool_call_id") or run_id)
        name = kwargs.get("name") or (serialized or {}).get("name")
        started = {"event": "tool-started", "tool_call_id": call_id, "tool_name": name}
        if inputs is not None:
            started["input"] = inputs
        self._emit(started)
        tool_call_writer.set(
            lambda delta: self._emit({"event": "tool-output-delta", "tool_call_id": call_id, "delta": delta})
        )

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A tool has returned."""
        call_id = self._ended(run_id)
        if call_id is not None:
            self._emit({"event": "tool-finished", "tool_call_id": call_id, "output": output})

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A tool has raised. One that pauses or stops the run has not ended."""
        call_id = self._ended(run_id)
        if call_id is not None and not isinstance(error, GraphBubbleUp):
            self._emit({"event": "tool-error", "tool_call_id": call_id, "message": str(error)})

    def _ended(self, run_id: UUID) -> str | None:
        call_id = self.calls.pop(run_id, None)
        if call_id is not None:
            tool_call_writer.set(None)
        return call_id

    def _emit(self, payload: dict[str, Any]) -> None:
        self.sink.emit(self.ns, "tools", payload)
