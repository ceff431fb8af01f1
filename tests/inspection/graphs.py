"""Graphs that the tests here look at: each node adds its own name to the words."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any

from typing_extensions import TypedDict

from perdure.graph import START, StateGraph
from perdure.types import interrupt


class Words(TypedDict):
    words: Annotated[list[str], operator.add]


def adds(name: str) -> Callable[[Any], Any]:
    """A node that adds a word."""

    def node(state: Any) -> Any:
        return {"words": [name]}

    return node


def asks(state: Any) -> Any:
    """A node that adds the answer to a question."""
    return {"words": [interrupt("which?")]}


def chain(*names: str, **nodes: Any) -> StateGraph[Any]:
    """START, then the nodes one after another."""
    made: StateGraph[Any] = StateGraph(Words)
    made.add_sequence([(name, nodes.get(name, adds(name))) for name in names])
    return made.add_edge(START, names[0])


def fork(**nodes: Any) -> StateGraph[Any]:
    """START, then x and y side by side, then z after x."""
    made: StateGraph[Any] = StateGraph(Words)
    for name in ("x", "y", "z"):
        made.add_node(name, nodes.get(name, adds(name)))
    return made.add_edge(START, "x").add_edge(START, "y").add_edge("x", "z")
