"""Conditional edges: what their function is called with, and what its answer means."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from typing_extensions import TypedDict

from perdure.constants import END, START
from perdure.engine.program import Branch, Standing
from perdure.errors import InvalidUpdateError
from perdure.graph.state import StateGraph
from perdure.types import Send

STEPS = Standing(1, 9)


class State(TypedDict):
    words: Annotated[list[str], operator.add]
    mood: str


class Part(TypedDict):
    mood: str


@dataclass
class Point:
    mood: str


class Colour(StrEnum):
    X = "x"


def idle(state: Any) -> None:
    return None


def branch(path: Any, path_map: Any = None, **node: Any) -> tuple[Branch, dict[str, Any]]:
    graph: StateGraph[Any] = StateGraph(State)
    graph.add_node("x", idle, **node).add_node("y", idle).add_edge(START, "x")
    program = graph.add_conditional_edges("x", path, path_map).compile().program
    channels = {key: channel.copy() for key, channel in program.channels.items()}
    channels["mood"].update(["fine"])
    (made,) = program.nodes["x"].branches
    return made, channels


def route(answer: Any, path_map: Any = None) -> list[Any]:
    made, _ = branch(lambda state: answer, path_map)
    return list(made.route(answer))


@pytest.mark.parametrize(
    ("answer", "writes"),
    [
        ("y", [("branch:to:y", None)]),
        (END, []),
        ([], []),
        (["y", END, "x"], [("branch:to:y", None), ("branch:to:x", None)]),
        (("y",), [("branch:to:y", None)]),
        (Send("y", 1), [("__pregel_tasks", Send("y", 1))]),
        (["x", Send("y", 1)], [("branch:to:x", None), ("__pregel_tasks", Send("y", 1))]),
        (Colour.X, [("branch:to:x", None)]),
    ],
)
def test_an_answer_names_what_runs_next(answer: Any, writes: list[Any]) -> None:
    """A name, a Send, or a list of them."""
    assert route(answer) == writes


@pytest.mark.parametrize("answer", [None, START, [None], ["x", START]])
def test_none_and_start_are_no_destinations(answer: Any) -> None:
    """A function that forgot to answer is told so."""
    with pytest.raises(ValueError, match="did not return a valid destination"):
        route(answer)


@pytest.mark.parametrize("answer", ["q", True, {"x"}, 3])
def test_an_unknown_destination_is_an_error(answer: Any) -> None:
    """The error names branch, node and answer."""
    with pytest.raises(ValueError, match=r"Branch 'condition' of node 'x'.*no node of this graph"):
        route(answer)


def test_no_packet_goes_to_end() -> None:
    """END runs nothing that could take it."""
    with pytest.raises(InvalidUpdateError, match="Cannot send a packet to the END node"):
        route(Send(END, 1))


def test_a_packet_needs_a_node() -> None:
    """A Send to an unknown node is an error."""
    with pytest.raises(InvalidUpdateError, match="'q', which is no node"):
        route(Send("q", 1))


@pytest.mark.parametrize("path_map", [{True: "x", False: END, "both": "y"}])
def test_a_map_translates_answers(path_map: Any) -> None:
    """Keys of the map need not be names; Sends pass it by."""
    assert route(True, path_map) == [("branch:to:x", None)]
    assert route(False, path_map) == []
    assert route(["both", Send("y", 1)], path_map) == [
        ("branch:to:y", None),
        ("__pregel_tasks", Send("y", 1)),
    ]


@pytest.mark.parametrize("answer", ["z", None, ["z"], [{}]])
def test_an_answer_that_the_map_does_not_have(answer: Any) -> None:
    """It is a KeyError that lists what the map has."""
    with pytest.raises(KeyError, match="its path map does not have; it has 'x', 'y'"):
        route(answer, ["x", "y"])


def choose(state: Any) -> Literal["x"]:
    return "x"


def test_a_literal_hint_is_a_map() -> None:
    """What is not in the annotation is not taken."""
    made, _ = branch(choose)
    assert list(made.route("x")) == [("branch:to:x", None)]
    with pytest.raises(KeyError):
        made.route("y")


# -- what the function is called with


def test_it_sees_the_nodes_state() -> None:
    """The keys of the node's input schema, with extra keys of its output beneath."""
    made, channels = branch(idle, input_schema=Part)
    assert made.read(channels, STEPS, None) == {"mood": "fine"}
    assert made.read(channels, STEPS, {"mood": "old", "note": 1}) == {"mood": "fine", "note": 1}


def look(state: Part) -> str:
    return END


def look_at_point(state: Point) -> str:
    return END


def test_it_sees_what_its_annotation_names() -> None:
    """And then nothing of the output."""
    made, channels = branch(look)
    assert made.read(channels, STEPS, {"note": 1}) == {"mood": "fine"}


def test_it_gets_an_instance_of_its_class() -> None:
    """Classes are made of what was read."""
    made, channels = branch(look_at_point)
    assert made.read(channels, STEPS, None) == Point("fine")


# -- names


class Judge:
    def __call__(self, state: Any) -> str:
        return END

    def judge(self, state: Any) -> str:
        return END


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (idle, "idle"),
        (Judge().judge, "judge"),
        (Judge(), "condition"),
        (partial(idle), "condition"),
        (lambda state: END, "condition"),
    ],
)
def test_a_branch_is_named_after_its_function(path: Callable[..., Any], name: str) -> None:
    """What has no name of its own is called `condition`."""
    made, _ = branch(path)
    assert made.name == name


def test_an_async_path_is_awaited() -> None:
    """A coroutine function makes an async branch."""

    async def go(state: Any) -> str:
        return END

    made, _ = branch(go)
    assert made.path.is_async


def test_a_branch_from_start_sees_the_state() -> None:
    """START's conditional edges read the whole state after the input was written."""

    class In(TypedDict):
        mood: str

    graph: StateGraph[Any] = StateGraph(State, input_schema=In).add_node("x", idle)
    program = graph.set_conditional_entry_point(idle, ["x"]).compile().program
    (made,) = program.nodes[START].branches
    channels = {key: channel.copy() for key, channel in program.channels.items()}
    assert made.read(channels, STEPS, None) == {"words": []}
    assert list(made.route("x")) == [("branch:to:x", None)]
