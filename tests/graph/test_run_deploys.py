"""Threads that were begun by an earlier version of a graph."""

import pytest
from typing_extensions import TypedDict

from perdure.errors import InvalidUpdateError
from perdure.graph import END, START, StateGraph


class State(TypedDict, total=False):
    n: int


def graph_of(saver, *names):
    builder = StateGraph(State)
    builder.add_sequence([(name, lambda state: {"n": state.get("n", 0) + 1}) for name in names])
    builder.add_edge(START, names[0])
    builder.add_edge(names[-1], END)
    return builder.compile(checkpointer=saver, interrupt_before=names[1:])


def test_a_thread_that_waits_for_a_removed_node_is_not_taken_for_finished(drive, saver, thread):
    """`invoke(None)` says which node is missing; put back, the thread goes on."""
    drive.invoke(graph_of(saver, "a", "b"), {"n": 0}, thread())
    with pytest.raises(InvalidUpdateError, match="'b'"):
        drive.invoke(graph_of(saver, "a"), None, thread())
    assert drive.invoke(graph_of(saver, "a", "b"), None, thread()) == {"n": 2}
