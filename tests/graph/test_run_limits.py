"""How far a run may go, and how much of it at once."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from perdure.errors import GraphRecursionError
from perdure.graph import START, StateGraph
from perdure.types import Send


class State(TypedDict):
    words: Annotated[list[str], operator.add]


def endless() -> StateGraph[Any]:
    made: StateGraph[Any] = StateGraph(State).add_node("a", lambda state: {"words": ["a"]})
    return made.add_edge(START, "a").add_edge("a", "a")


def test_a_run_ends_at_its_limit(drive: Any, saver: Any, thread: Any) -> None:
    """A fresh input gets START and as many node supersteps as the limit says."""
    compiled = endless().compile(saver)
    with pytest.raises(GraphRecursionError, match="Recursion limit of 3 reached") as failure:
        drive.invoke(compiled, {"words": []}, {**thread(), "recursion_limit": 3})
    assert isinstance(failure.value, RecursionError)
    assert "GRAPH_RECURSION_LIMIT" in str(failure.value)
    assert drive.get_state(compiled, thread()).values == {"words": ["a", "a", "a"]}


def test_a_run_goes_on_with_a_new_budget(drive: Any, saver: Any, thread: Any) -> None:
    """What was done is kept, and invoke(None) gets the limit once more."""
    compiled = endless().compile(saver)
    for given in ({"words": []}, None):
        with pytest.raises(GraphRecursionError):
            drive.invoke(compiled, given, {**thread(), "recursion_limit": 3})
    assert len(drive.get_state(compiled, thread()).values["words"]) == 6


def test_a_run_that_is_done_at_its_limit_is_done(drive: Any) -> None:
    """Only a run that would go on is refused."""
    made: StateGraph[Any] = StateGraph(State)
    made.add_sequence([(name, lambda state: {"words": ["n"]}) for name in "abc"]).add_edge(START, "a")
    assert drive.invoke(made.compile(), {"words": []}, {"recursion_limit": 3}) == {"words": ["n"] * 3}


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_is_at_least_one(drive: Any, limit: int) -> None:
    """Anything less is refused before the run begins."""
    with pytest.raises(ValueError, match="recursion_limit"):
        drive.invoke(endless().compile(), {"words": []}, {"recursion_limit": limit})


def test_a_child_has_a_budget_of_its_own(drive: Any) -> None:
    """Its supersteps do not count for the parent."""
    child: StateGraph[Any] = StateGraph(State)
    child.add_sequence([(name, lambda state: None) for name in "abcd"]).add_edge(START, "a")
    parent: StateGraph[Any] = StateGraph(State)
    parent.add_sequence([("one", child.compile()), ("two", child.compile())]).add_edge(START, "one")
    assert drive.invoke(parent.compile(), {"words": ["w"]}, {"recursion_limit": 5})["words"] == ["w"] * 4


@pytest.mark.parametrize("limit", [1, 2])
def test_packets_run_a_few_at_a_time(drive: Any, limit: int) -> None:
    """max_concurrency bounds how many nodes run at once."""
    running: list[int] = []
    most = []

    def work(n: int) -> dict[str, list[str]]:
        running.append(n)
        most.append(len(running))
        running.remove(n)
        return {"words": [str(n)]}

    made: StateGraph[Any] = StateGraph(State).add_node("w", work)
    made.add_conditional_edges(START, lambda state: [Send("w", n) for n in range(8)])
    result = drive.invoke(made.compile(), {"words": []}, {"max_concurrency": limit})
    assert result["words"] == [str(n) for n in range(8)]
    assert max(most) <= limit
