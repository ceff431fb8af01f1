"""The documented door to graphs."""

from perdure.graph.builder import StateGraph
from perdure.graph.compiled import CompiledStateGraph

__all__ = ["CompiledStateGraph", "StateGraph"]
