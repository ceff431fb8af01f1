"""Supersteps: what runs together, in which order writes count, and when joins are through."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from perdure.errors import ErrorCode, InvalidUpdateError
from perdure.graph import END, START, StateGraph
from perdure.types import Overwrite, Send


class State(TypedDict):
    words: Annotated[list[str], operator.add]


class Plain(TypedDict):
    mood: str
    note: str


def says(word: str) -> Callable[[Any], dict[str, list[str]]]:
    return lambda state: {"words": [word]}


def graph(*names: str, **adding: Any) -> StateGraph[Any]:
    made: StateGraph[Any] = StateGraph(State)
    for name in names:
        made.add_node(name, says(name), **adding)
    return made


def words(drive: Any, made: StateGraph[Any], **config: Any) -> list[str]:
    result: list[str] = drive.invoke(made.compile(), {"words": []}, config)["words"]
    return result


def test_nodes_of_a_superstep_do_not_see_each_other(drive: Any) -> None:
    """Each reads the state as it was when the superstep began."""
    seen: dict[str, list[str]] = {}

    def look(name: str) -> Callable[[State], dict[str, list[str]]]:
        def node(state: State) -> dict[str, list[str]]:
            seen[name] = state["words"]
            return {"words": [name]}

        return node

    made: StateGraph[Any] = StateGraph(State).add_node("a", look("a")).add_node("b", look("b"))
    made.add_node("c", look("c")).add_edge(START, "a").add_edge(START, "b").add_edge("b", "c")
    assert words(drive, made) == ["a", "b", "c"]
    assert seen == {"a": [], "b": [], "c": ["a", "b"]}


def test_writes_count_in_the_order_of_names(drive: Any) -> None:
    """Not in the order of definition or of finishing; packets come after nodes, as sent."""
    made = graph("z", "m").add_node("packet", lambda n: {"words": [str(n)]})
    made.add_edge(START, "z").add_edge(START, "m")
    made.add_conditional_edges(START, lambda state: [Send("packet", n) for n in range(12)])
    assert words(drive, made) == ["m", "z", *map(str, range(12))]


@given(st.permutations(["a", "b", "c", "d", "e"]))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_order_of_definition_does_not_matter(drive: Any, names: list[str]) -> None:
    """Whatever order nodes are added in, the state comes out the same."""
    made = graph(*names)
    for name in names:
        made.add_edge(START, name)
    assert words(drive, made) == ["a", "b", "c", "d", "e"]


def test_two_writers_of_a_plain_key_are_refused(drive: Any) -> None:
    """A key without reducer takes one value per superstep."""
    made: StateGraph[Any] = StateGraph(Plain)
    for name in "ab":
        made.add_node(name, lambda state: {"mood": "m"}).add_edge(START, name)
    with pytest.raises(
        InvalidUpdateError, match="At key 'mood': Can receive only one value per step"
    ) as failure:
        drive.invoke(made.compile(), {})
    assert ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE.value in str(failure.value)


def test_an_overwrite_wins_over_its_siblings(drive: Any) -> None:
    """It replaces what was reduced, wherever it stands in the order."""
    made = graph("p", "r").add_node("q", lambda state: {"words": Overwrite(["q"])})
    for name in "pqr":
        made.add_edge(START, name)
    assert words(drive, made) == ["q"]


def test_several_edges_into_a_node_trigger_it_once(drive: Any) -> None:
    """In one superstep."""
    made = (
        graph("a", "b", "c").add_edge(START, "a").add_edge(START, "b").add_edge("a", "c").add_edge("b", "c")
    )
    assert words(drive, made) == ["a", "b", "c"]


def test_edges_of_different_supersteps_trigger_it_again(drive: Any) -> None:
    """A node that is reached twice runs twice."""
    made = graph("a", "b", "c").add_edge(START, "a").add_edge("a", "b").add_edge("a", "c").add_edge("b", "c")
    assert words(drive, made) == ["a", "b", "c", "c"]


def test_a_join_waits_for_all(drive: Any) -> None:
    """However many supersteps apart its starts are."""
    made = graph("a", "b", "b2", "c").add_edge(START, "a").add_edge(START, "b").add_edge("b", "b2")
    assert words(drive, made.add_edge(["a", "b2"], "c")) == ["a", "b", "b2", "c"]


def test_a_join_starts_over(drive: Any) -> None:
    """When it has fired it waits for all of its starts again."""
    made = graph("a", "b", "c").add_edge(START, "a").add_edge("a", "b").add_edge(["a", "b"], "c")
    made.add_conditional_edges("c", lambda state: "a" if len(state["words"]) < 6 else END)
    assert words(drive, made) == ["a", "b", "c", "a", "b", "c"]


def test_a_join_of_one_is_an_edge(drive: Any) -> None:
    """A list of one start waits for that one."""
    assert words(drive, graph("a", "b").add_edge(START, "a").add_edge(["a"], "b")) == ["a", "b"]


def test_a_deferred_node_runs_last(drive: Any) -> None:
    """When nothing else is triggered, whatever has triggered it before."""
    made = graph("a", "b", "b2", "b3").add_node("late", says("late"), defer=True)
    made.add_edge(START, "a").add_edge(START, "b").add_edge("b", "b2").add_edge("b2", "b3")
    made.add_edge("a", "late").add_edge("b3", "late")
    assert words(drive, made) == ["a", "b", "b2", "b3", "late"]


def test_deferred_nodes_run_together(drive: Any) -> None:
    """Those that are ready when the run would end share a superstep."""
    made = graph("a").add_node("late", says("late"), defer=True).add_node("later", says("later"), defer=True)
    made.add_edge(START, "late").add_edge(START, "a").add_edge("a", "later")
    assert words(drive, made) == ["a", "late", "later"]


def test_a_deferred_node_waits_for_packets(drive: Any) -> None:
    """A Send that is still to be run is work that is left."""
    made = graph("a", "w", "w2").add_node("late", says("late"), defer=True)
    made.add_edge(START, "a").add_edge(START, "late")
    made.add_conditional_edges("a", lambda state: [Send("w", None), Send("w", None)])
    made.add_edge("w", "w2")
    assert words(drive, made) == ["a", "w", "w", "w2", "late"]


def test_a_deferred_join_waits_for_its_starts_and_the_end(drive: Any) -> None:
    """A join into a deferred node fires when nothing else is left."""
    made = graph("a", "b", "c", "d").add_node("late", says("late"), defer=True)
    made.add_edge(START, "a").add_edge(START, "b").add_edge("b", "c").add_edge("c", "d")
    assert words(drive, made.add_edge(["a", "b"], "late")) == ["a", "b", "c", "d", "late"]


def test_what_follows_a_deferred_node_runs(drive: Any) -> None:
    """The run goes on from it as from any other."""
    made = graph("a", "after").add_node("late", says("late"), defer=True)
    made.add_edge(START, "late").add_edge(START, "a").add_edge("late", "after")
    assert words(drive, made) == ["a", "late", "after"]


def test_a_graph_of_edges_alone_passes_its_input(drive: Any) -> None:
    """START may lead to END."""
    compiled = StateGraph(State).add_edge(START, END).compile()
    assert drive.invoke(compiled, {"words": ["a"]}) == {"words": ["a"]}


def test_a_sequence_runs_in_order(drive: Any) -> None:
    """add_sequence chains its nodes."""
    made: StateGraph[Any] = StateGraph(State).add_sequence([("z", says("z")), ("a", says("a"))])
    assert words(drive, made.set_entry_point("z").set_finish_point("a")) == ["z", "a"]


def test_keys_never_written_are_absent(drive: Any) -> None:
    """A plain key without a value is not in the result."""
    compiled = StateGraph(Plain).add_node("x", lambda state: {"note": "n"}).add_edge(START, "x").compile()
    assert drive.invoke(compiled, {}) == {"note": "n"}


def test_a_node_may_be_named_like_a_key(drive: Any) -> None:
    """Nodes and state keys are names of different things."""
    made: StateGraph[Any] = StateGraph(State).add_node("words", says("w")).add_edge(START, "words")
    assert words(drive, made) == ["w"]


def test_a_compiled_graph_is_not_changed_by_later_additions(drive: Any) -> None:
    """It runs what was there when it was compiled."""
    made = graph("a").add_edge(START, "a")
    compiled = made.compile()
    made.add_node("b", says("b")).add_edge("a", "b")
    assert drive.invoke(compiled, {"words": []})["words"] == ["a"]


def test_a_thread_keeps_its_state(drive: Any, saver: Any, thread: Any) -> None:
    """A second input is added to what the first run left."""
    compiled = graph("a").add_edge(START, "a").compile(saver)
    drive.invoke(compiled, {"words": ["1"]}, thread())
    assert drive.invoke(compiled, {"words": ["2"]}, thread())["words"] == ["1", "a", "2", "a"]


def test_checkpoints_are_numbered_by_supersteps(drive: Any, saver: Any, thread: Any) -> None:
    """The input is step -1, START step 0, the first nodes step 1; a later run goes on from there."""
    compiled = graph("x", "y").add_edge(START, "x").add_edge("x", "y").compile(saver)
    drive.invoke(compiled, {"words": []}, thread())
    states = drive.history(compiled, thread())
    assert [(s.metadata["source"], s.metadata["step"], s.next) for s in states] == [
        ("loop", 2, ()),
        ("loop", 1, ("y",)),
        ("loop", 0, ("x",)),
        ("input", -1, ("__start__",)),
    ]
    drive.invoke(compiled, {"words": []}, thread())
    assert [s.metadata["step"] for s in drive.history(compiled, thread(), limit=4)] == [6, 5, 4, 3]
