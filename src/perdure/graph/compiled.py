"""The workflow that a StateGraph compiles to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from perdure.graph.json_schema import json_schema
from perdure.typing import ContextT, InputT, OutputT, StateT
from perdure.workflow import Workflow

if TYPE_CHECKING:
    from perdure.graph.builder import StateGraph


class CompiledStateGraph(Workflow, Generic[StateT, ContextT, InputT, OutputT]):
    """A graph, ready to run. Made by `StateGraph.compile`."""

    builder: StateGraph[StateT, ContextT, InputT, OutputT]
    """The graph it was made from."""
    stream_transformers: tuple[Any, ...]
    """Projections that each of its event streams gets."""

    def get_input_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """JSON schema of the input. Needs pydantic."""
        return json_schema(self.program, "input") or {}

    def get_output_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """JSON schema of what `invoke` returns. Needs pydantic."""
        return json_schema(self.program, "output") or {}

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """JSON schema of the `context` of a run; None where none is declared. Needs pydantic."""
        return json_schema(self.program, "context")
