"""The workflow that a StateGraph compiles to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

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
