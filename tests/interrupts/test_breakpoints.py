"""Static breakpoints: `interrupt_before` and `interrupt_after`."""

from typing import TypedDict

import pytest

from perdure.graph import START, StateGraph
from perdure.types import Command

T = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    trail: str


@pytest.fixture
def ran():
    return []


def chain(ran, saver, **options):
    """A graph that runs a, b, c in a row."""

    def node(name):
        def run(state):
            ran.append(name)
            return {"trail": state.get("trail", "") + name}

        return run

    builder = StateGraph(State)
    builder.add_sequence([(name, node(name)) for name in "abc"])
    builder.add_edge(START, "a")
    return builder.compile(checkpointer=saver, **options)


def test_before_stops_ahead_of_the_node(drive, saver, ran):
    """The node has not run, and is next."""
    graph = chain(ran, saver, interrupt_before=["b"])
    assert drive.invoke(graph, {}, T) == {"trail": "a"}
    assert ran == ["a"]
    assert drive.get_state(graph, T).next == ("b",)


def test_after_stops_behind_the_node(drive, saver, ran):
    """The node has run, and its successor is next."""
    graph = chain(ran, saver, interrupt_after=["b"])
    assert drive.invoke(graph, {}, T) == {"trail": "ab"}
    assert drive.get_state(graph, T).next == ("c",)


def test_invoke_none_goes_on(drive, saver, ran):
    """A breakpoint is passed by `invoke(None)`, once each."""
    graph = chain(ran, saver, interrupt_before=["b", "c"])
    drive.invoke(graph, {}, T)
    assert drive.invoke(graph, None, T) == {"trail": "ab"}
    assert drive.invoke(graph, None, T) == {"trail": "abc"}
    assert ran == ["a", "b", "c"]


def test_star_means_every_node(drive, saver, ran):
    """`"*"` stops before every node but not before the hidden start."""
    graph = chain(ran, saver, interrupt_before="*")
    drive.invoke(graph, {}, T)
    assert drive.get_state(graph, T).next == ("a",)
    for _ in range(3):
        drive.invoke(graph, None, T)
    assert ran == ["a", "b", "c"]
    assert drive.get_state(graph, T).next == ()


def test_given_at_the_call(drive, saver, ran):
    """Breakpoints may be given to a single run."""
    graph = chain(ran, saver)
    drive.invoke(graph, {}, T, interrupt_before=["c"])
    assert ran == ["a", "b"]
    drive.invoke(graph, None, T)
    assert ran == ["a", "b", "c"]


def test_no_question_is_open_at_a_breakpoint(drive, saver, ran):
    """The result has no `__interrupt__` and the state no interrupts."""
    graph = chain(ran, saver, interrupt_before=["b"])
    assert "__interrupt__" not in drive.invoke(graph, {}, T)
    assert drive.get_state(graph, T).interrupts == ()


def test_updates_tells_of_the_stop(drive, saver, ran):
    """In `updates` a breakpoint is an empty tuple of interrupts."""
    graph = chain(ran, saver, interrupt_before=["b"])
    chunks = drive.stream(graph, {}, T, stream_mode="updates")
    assert chunks == [{"a": {"trail": "a"}}, {"__interrupt__": ()}]


def test_an_answer_at_a_breakpoint_is_a_plain_resume(drive, saver, ran):
    """A Command(resume=) given where only a breakpoint stopped goes on."""
    graph = chain(ran, saver, interrupt_before=["b"])
    drive.invoke(graph, {}, T)
    assert drive.invoke(graph, Command(resume="whatever"), T) == {"trail": "abc"}


def test_unknown_node_is_refused_at_compile(ran):
    """A breakpoint needs a node to stop at."""
    with pytest.raises(ValueError, match="Interrupt node `x` not found"):
        chain(ran, None, interrupt_before=["x"])


def test_state_can_be_changed_at_a_breakpoint(drive, saver, ran):
    """What update_state writes at a stop is what the next node reads."""
    graph = chain(ran, saver, interrupt_before=["b"])
    drive.invoke(graph, {}, T)
    drive.update_state(graph, T, {"trail": "A"})
    assert drive.invoke(graph, None, T) == {"trail": "Abc"}


def test_without_saver_the_run_stops(drive, ran):
    """A breakpoint stops a run that nothing can resume."""
    assert drive.invoke(chain(ran, None, interrupt_before=["b"]), {}) == {"trail": "a"}
