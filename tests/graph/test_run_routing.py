"""Where a run goes: conditional edges, packets and Commands."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from typing_extensions import TypedDict

from perdure.errors import InvalidUpdateError
from perdure.graph import END, START, StateGraph
from perdure.types import Command, Send


class State(TypedDict):
    words: Annotated[list[str], operator.add]


class Private(TypedDict):
    secret: str


def says(word: str) -> Callable[[Any], dict[str, list[str]]]:
    return lambda state: {"words": [word]}


def graph(*names: str) -> StateGraph[Any]:
    made: StateGraph[Any] = StateGraph(State)
    for name in names:
        made.add_node(name, says(name))
    return made


def words(drive: Any, made: StateGraph[Any]) -> list[str]:
    result: list[str] = drive.invoke(made.compile(), {"words": []})["words"]
    return result


# -- conditional edges


def test_a_conditional_edge_chooses(drive: Any) -> None:
    """What its function names runs next, END nothing."""
    made = graph("a", "b").add_edge(START, "a").add_edge("b", "a")
    made.add_conditional_edges("a", lambda state: "b" if len(state["words"]) < 2 else END)
    assert words(drive, made) == ["a", "b", "a"]


def test_a_conditional_edge_sees_its_nodes_writes_alone(drive: Any) -> None:
    """The state with the writes of its own task, not with those of siblings."""
    seen = []

    def look(state: State) -> str:
        seen.append(state["words"])
        return END

    made = graph("a", "b").add_edge(START, "a").add_edge(START, "b").add_conditional_edges("a", look)
    assert words(drive, made) == ["a", "b"]
    assert seen == [["a"]]


def test_a_conditional_edge_may_lead_to_several_nodes(drive: Any) -> None:
    """They run in one superstep."""
    made = graph("a", "b", "c").add_edge(START, "a").add_conditional_edges("a", lambda state: ["c", "b"])
    assert words(drive, made) == ["a", "b", "c"]


def test_a_map_of_answers(drive: Any) -> None:
    """The function answers in its own words."""
    made = graph("a", "b").add_edge(START, "a")
    made.add_conditional_edges("a", lambda state: len(state["words"]) > 0, {True: "b", False: END})
    assert words(drive, made) == ["a", "b"]


def test_a_conditional_edge_from_start(drive: Any) -> None:
    """START's branch sees the state with the input applied."""
    made: StateGraph[Any] = graph("a", "b")
    made.set_conditional_entry_point(lambda state: state["words"][0])
    assert drive.invoke(made.compile(), {"words": ["b"]})["words"] == ["b", "b"]


def test_several_branches_of_a_node_are_all_taken(drive: Any) -> None:
    """Each adds its targets."""

    def one(state: State) -> str:
        return "b"

    def two(state: State) -> str:
        return "c"

    made = graph("a", "b", "c").add_edge(START, "a").add_conditional_edges("a", one)
    assert words(drive, made.add_conditional_edges("a", two)) == ["a", "b", "c"]


def test_async_conditional_edges(drive: Any) -> None:
    """The function of an edge is a coroutine where the driver's are."""
    made = graph("a", "b").add_edge(START, "a").add_conditional_edges("a", drive.fn(lambda state: "b"), ["b"])
    assert words(drive, made) == ["a", "b"]


@pytest.mark.parametrize("answer", [None, START, "nowhere"])
def test_a_conditional_edge_to_nowhere_fails(drive: Any, answer: Any) -> None:
    """The run ends with an error that says which edge it was."""
    made = graph("a").add_edge(START, "a").add_conditional_edges("a", lambda state: answer)
    with pytest.raises(ValueError, match="Branch 'condition' of node 'a' did not return a valid destination"):
        words(drive, made)


def test_a_failing_conditional_edge_leaves_its_node_unfinished(drive: Any, saver: Any, thread: Any) -> None:
    """When it is resumed the node runs again, and its edge with it."""
    answers = [None, "b"]
    ran = []

    def a(state: State) -> dict[str, list[str]]:
        ran.append("a")
        return {"words": ["a"]}

    made: StateGraph[Any] = StateGraph(State).add_node("a", a).add_node("b", says("b")).add_edge(START, "a")
    compiled = made.add_conditional_edges("a", lambda state: answers.pop(0)).compile(saver)
    with pytest.raises(ValueError, match="valid destination"):
        drive.invoke(compiled, {"words": []}, thread())
    assert drive.get_state(compiled, thread()).next == ("a",)
    assert drive.invoke(compiled, None, thread()) == {"words": ["a", "b"]}
    assert ran == ["a", "a"]


# -- packets


def test_packets_carry_an_input_of_their_own(drive: Any) -> None:
    """As it is, whatever the node's schema says."""
    made: StateGraph[Any] = StateGraph(State).add_node("w", lambda arg: {"words": [repr(arg)]})
    made.add_conditional_edges(START, lambda state: [Send("w", {"n": 1}), Send("w", 2), Send("w", None)])
    assert words(drive, made) == ["{'n': 1}", "2", "None"]


def test_map_and_reduce(drive: Any) -> None:
    """Packets run together; what follows them runs once, with all their results."""
    made: StateGraph[Any] = StateGraph(State).add_node("w", lambda n: {"words": [str(n)]})
    made.add_node("sum", lambda state: {"words": ["+".join(state["words"])]})
    made.add_conditional_edges(START, lambda state: [Send("w", n) for n in (3, 1, 2)], ["w"])
    assert words(drive, made.add_edge("w", "sum")) == ["3", "1", "2", "3+1+2"]


def test_packets_and_names_in_one_answer(drive: Any) -> None:
    """Nodes come before packets in the order of writes."""
    made = graph("a", "b").add_node("w", lambda n: {"words": [str(n)]}).add_edge(START, "a")
    made.add_conditional_edges("a", lambda state: [Send("w", 1), "b"])
    assert words(drive, made) == ["a", "b", "1"]


def test_packets_to_a_node_that_is_triggered_too(drive: Any) -> None:
    """The node runs by its edge and once for each packet."""
    made: StateGraph[Any] = StateGraph(State)
    made.add_node("w", lambda arg: {"words": ["edge" if isinstance(arg, dict) else str(arg)]})
    made.add_edge(START, "w").add_conditional_edges(START, lambda state: [Send("w", 1), Send("w", 2)])
    assert words(drive, made) == ["edge", "1", "2"]


@pytest.mark.parametrize("node", [END, "nowhere"])
def test_packets_to_nowhere_fail(drive: Any, node: str) -> None:
    """END and unknown nodes take no packets."""
    made = graph("a").add_edge(START, "a").add_conditional_edges("a", lambda state: Send(node, 1))
    with pytest.raises(InvalidUpdateError):
        words(drive, made)


# -- Commands


def test_a_command_updates_and_goes(drive: Any) -> None:
    """No edge is needed for where it goes."""

    def a(state: State) -> Command[Literal["b"]]:
        return Command(update={"words": ["a"]}, goto="b")

    made: StateGraph[Any] = StateGraph(State).add_node("a", a).add_node("b", says("b")).add_edge(START, "a")
    assert words(drive, made) == ["a", "b"]


def test_a_command_goes_besides_the_edges(drive: Any) -> None:
    """Edges are followed whatever a Command says, END included."""
    made = (
        graph("b", "c").add_node("a", lambda state: Command(goto="c")).add_edge(START, "a").add_edge("a", "b")
    )
    assert words(drive, made) == ["b", "c"]
    made = graph("b").add_node("a", lambda state: Command(goto=END)).add_edge(START, "a").add_edge("a", "b")
    assert words(drive, made) == ["b"]


def test_a_command_sends_packets(drive: Any) -> None:
    """Names and Sends may be mixed."""
    made = graph("b").add_node("w", lambda n: {"words": [str(n)]})
    made.add_node("a", lambda state: Command(goto=[Send("w", 1), "b", Send("w", 2)])).add_edge(START, "a")
    assert words(drive, made) == ["b", "1", "2"]


def test_a_list_of_commands(drive: Any) -> None:
    """Each element counts, in order, dicts between them too."""

    def a(state: State) -> Any:
        return [
            Command(update={"words": ["1"]}, goto="b"),
            {"words": ["2"]},
            Command(update={"words": ["3"]}),
        ]

    made = graph("b").add_node("a", a).add_edge(START, "a")
    assert words(drive, made) == ["1", "2", "3", "b"]


def test_a_command_to_nowhere_fails(drive: Any) -> None:
    """The error names node and target."""
    made = graph().add_node("a", lambda state: Command(goto="nowhere")).add_edge(START, "a")
    with pytest.raises(InvalidUpdateError, match=r"Node 'a'.*'nowhere'"):
        words(drive, made)


def test_a_loop_by_commands_ends(drive: Any) -> None:
    """A node may go to itself."""

    def a(state: State) -> Any:
        return Command(update={"words": ["a"]}, goto="a" if len(state["words"]) < 2 else END)

    made: StateGraph[Any] = StateGraph(State).add_node("a", a).add_edge(START, "a")
    assert words(drive, made) == ["a", "a", "a"]


def test_a_deferred_node_can_be_gone_to(drive: Any) -> None:
    """It still waits for the end."""
    made = graph("b", "c").add_node("late", says("late"), defer=True)
    made.add_node("a", lambda state: Command(goto=["late", "b"])).add_edge(START, "a").add_edge("b", "c")
    assert words(drive, made) == ["b", "c", "late"]


def test_updates_show_what_each_node_wrote(drive: Any) -> None:
    """None for a node that wrote nothing."""
    made = graph("b").add_node("a", lambda state: Command(goto="b")).add_edge(START, "a").compile()
    chunks = drive.stream(made, {"words": []}, stream_mode="updates")
    assert chunks == [{"a": None}, {"b": {"words": ["b"]}}]
