"""Graphs of all shapes run as a model of a page says they do."""

from __future__ import annotations

import operator
from typing import Annotated, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from perdure.graph import START, StateGraph

NAMES = "abcdef"


class State(TypedDict):
    ran: Annotated[list[str], operator.add]


class Shape(TypedDict):
    entries: list[str]
    edges: list[tuple[str, str]]
    joins: list[tuple[list[str], str]]
    deferred: list[str]


def _forward(pair: tuple[str, str]) -> bool:
    return pair[0] < pair[1]


names = st.sampled_from(NAMES)
shapes = st.fixed_dictionaries(
    {
        "entries": st.lists(names, min_size=1, max_size=3, unique=True),
        "edges": st.lists(st.tuples(names, names).filter(_forward), max_size=10, unique=True),
        "joins": st.lists(
            st.tuples(
                st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True), st.sampled_from("ef")
            ),
            max_size=2,
            unique_by=str,
        ),
        "deferred": st.lists(names, max_size=2, unique=True),
    }
)


def build(shape: Shape) -> Any:
    graph: StateGraph[Any] = StateGraph(State)
    for name in NAMES:
        graph.add_node(name, lambda state, name=name: {"ran": [name]}, defer=name in shape["deferred"])  # type: ignore[misc]
    for name in shape["entries"]:
        graph.add_edge(START, name)
    for start, end in shape["edges"]:
        graph.add_edge(start, end)
    for starts, end in shape["joins"]:
        graph.add_edge(starts, end)
    return graph.compile()


def expected(shape: Shape) -> list[str]:
    """The nodes in the order of their writes, superstep by superstep."""
    ran: list[str] = []
    due, held = set(shape["entries"]), set[str]()
    missing = [set(starts) for starts, _ in shape["joins"]]
    while True:
        held |= {name for name in due if name in shape["deferred"]}
        due -= held
        if not due:
            due, held = held, set()
        if not due:
            return ran
        ran += sorted(due)
        done, due = due, {end for start, end in shape["edges"] if start in due}
        for place, (starts, end) in enumerate(shape["joins"]):
            missing[place] -= done
            if not missing[place]:
                missing[place] = set(starts)
                due.add(end)


@given(shapes)
@settings(max_examples=150, deadline=None)
def test_a_graph_runs_as_the_model_says(shape: Shape) -> None:
    """Edges, joins and deferred nodes together: the same nodes, the same supersteps, the same order."""
    assert build(shape).invoke({"ran": []})["ran"] == expected(shape)
