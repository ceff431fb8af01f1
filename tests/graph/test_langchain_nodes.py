"""Runnables as nodes and edges."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from langchain_core.runnables import RunnableConfig, RunnableLambda
from typing_extensions import TypedDict

from perdure.graph import END, START, StateGraph

pytestmark = pytest.mark.langchain


class State(TypedDict):
    words: Annotated[list[str], operator.add]


def double(state: State) -> dict[str, list[str]]:
    return {"words": [word * 2 for word in state["words"]]}


def test_a_runnable_is_a_node(drive: Any) -> None:
    """Given alone, it gives the node its name."""
    graph: StateGraph[Any] = StateGraph(State).add_node(RunnableLambda(double)).add_edge(START, "double")
    assert drive.invoke(graph.compile(), {"words": ["a"]}) == {"words": ["a", "aa"]}


def test_a_chain_is_a_node(drive: Any) -> None:
    """Its last output is the node's."""
    chain = RunnableLambda(lambda state: state["words"]) | RunnableLambda(
        lambda words: {"words": [str(len(words))]}
    )
    graph: StateGraph[Any] = StateGraph(State).add_node("n", chain).add_edge(START, "n")
    assert drive.invoke(graph.compile(), {"words": ["a"]}) == {"words": ["a", "1"]}


def test_a_dict_is_a_node(drive: Any) -> None:
    """Each of its values makes one key of the output."""
    graph: StateGraph[Any] = StateGraph(State).add_node("n", {"words": RunnableLambda(lambda state: ["n"])})
    assert drive.invoke(graph.add_edge(START, "n").compile(), {"words": []}) == {"words": ["n"]}


def test_a_runnable_is_an_edge(drive: Any) -> None:
    """It is named like its function, and its answer is a node's name."""

    def choose(state: State) -> str:
        return END if len(state["words"]) > 2 else "n"

    graph: StateGraph[Any] = (
        StateGraph(State).add_node("n", lambda state: {"words": ["n"]}).add_edge(START, "n")
    )
    graph.add_conditional_edges("n", RunnableLambda(choose))
    assert list(graph.branches["n"]) == ["choose"]
    assert drive.invoke(graph.compile(), {"words": []}) == {"words": ["n", "n", "n"]}


def test_a_runnable_gets_the_config(drive: Any) -> None:
    """What the caller put under configurable is there."""

    def read(state: State, config: RunnableConfig) -> dict[str, list[str]]:
        return {"words": [config["configurable"]["user"]]}

    graph: StateGraph[Any] = StateGraph(State).add_node("n", RunnableLambda(read)).add_edge(START, "n")
    assert drive.invoke(graph.compile(), {"words": []}, {"configurable": {"user": "me"}}) == {"words": ["me"]}


def test_unknown_keys_of_a_chain_are_dropped_without_a_word(drive: Any) -> None:
    """A Runnable may return more than the state has."""
    graph: StateGraph[Any] = StateGraph(State).add_node("n", RunnableLambda(lambda state: {"more": 1}))
    assert drive.invoke(graph.add_edge(START, "n").compile(), {"words": []}) == {"words": []}
