"""Static breakpoints: a run stops ahead of a node, or after one, and goes on when told to."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from perdure.graph import START, StateGraph


class State(TypedDict):
    words: Annotated[list[str], operator.add]


def graph() -> StateGraph[Any]:
    made: StateGraph[Any] = StateGraph(State)
    names = ["a", "b", "c"]
    made.add_sequence([(name, lambda state, name=name: {"words": [name]}) for name in names])  # type: ignore[misc]
    return made.add_edge(START, "a")


@pytest.mark.parametrize("stops", [{"interrupt_before": ["b"]}, {"interrupt_after": ["a"]}])
def test_a_run_stops_between_two_nodes(drive: Any, saver: Any, thread: Any, stops: Any) -> None:
    """Before the one or after the other: what is done is kept, and what comes next is known."""
    compiled = graph().compile(saver, **stops)
    assert drive.invoke(compiled, {"words": []}, thread()) == {"words": ["a"]}
    state = drive.get_state(compiled, thread())
    assert (state.next, state.interrupts) == (("b",), ())
    assert drive.invoke(compiled, None, thread()) == {"words": ["a", "b", "c"]}


def test_a_run_stops_at_every_node(drive: Any, saver: Any, thread: Any) -> None:
    """A star names all nodes; START is none."""
    compiled = graph().compile(saver, interrupt_before="*")
    assert drive.invoke(compiled, {"words": []}, thread()) == {"words": []}
    for words in (["a"], ["a", "b"], ["a", "b", "c"]):
        assert drive.invoke(compiled, None, thread()) == {"words": words}
    assert drive.get_state(compiled, thread()).next == ()


def test_a_call_may_name_other_stops(drive: Any, saver: Any, thread: Any) -> None:
    """They take the place of those that were compiled."""
    compiled = graph().compile(saver, interrupt_before=["b"])
    assert drive.invoke(compiled, {"words": []}, thread(), interrupt_before=["c"]) == {"words": ["a", "b"]}


def test_a_whole_superstep_is_held(drive: Any, saver: Any, thread: Any) -> None:
    """A sibling of the node does not run either."""
    made = graph().add_node("side", lambda state: {"words": ["side"]}).add_edge("a", "side")
    compiled = made.compile(saver, interrupt_before=["b"])
    drive.invoke(compiled, {"words": []}, thread())
    assert set(drive.get_state(compiled, thread()).next) == {"b", "side"}


def test_a_stop_is_shown_in_the_updates(drive: Any, saver: Any, thread: Any) -> None:
    """As an empty tuple of questions."""
    compiled = graph().compile(saver, interrupt_before=["b"])
    chunks = drive.stream(compiled, {"words": []}, thread(), stream_mode="updates")
    assert chunks == [{"a": {"words": ["a"]}}, {"__interrupt__": ()}]


def test_a_run_without_a_saver_stops_too(drive: Any) -> None:
    """It cannot go on, but it does not go past the stop."""
    compiled = graph().compile(interrupt_before=["b"])
    assert drive.invoke(compiled, {"words": []}) == {"words": ["a"]}


def test_a_changed_state_is_what_goes_on(drive: Any, saver: Any, thread: Any) -> None:
    """update_state at a stop is seen by the next node."""
    compiled = graph().compile(saver, interrupt_before=["c"])
    drive.invoke(compiled, {"words": []}, thread())
    drive.update_state(compiled, thread(), {"words": ["mine"]})
    assert drive.invoke(compiled, None, thread()) == {"words": ["a", "b", "mine", "c"]}


def test_a_loop_stops_each_time(drive: Any, saver: Any, thread: Any) -> None:
    """A node that is reached again is stopped at again."""
    made: StateGraph[Any] = (
        StateGraph(State).add_node("a", lambda state: {"words": ["a"]}).add_edge(START, "a")
    )
    compiled = made.add_edge("a", "a").compile(saver, interrupt_after=["a"])
    assert drive.invoke(compiled, {"words": []}, thread()) == {"words": ["a"]}
    assert drive.invoke(compiled, None, thread()) == {"words": ["a", "a"]}
    assert drive.invoke(compiled, None, thread()) == {"words": ["a", "a", "a"]}
