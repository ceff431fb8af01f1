"""State in all its forms, in runs: classes, private keys, bare values, computed ones, messages."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ValidationError
from typing_extensions import TypedDict

from perdure.errors import InvalidUpdateError
from perdure.graph import START, MessagesState, StateGraph
from perdure.managed import IsLastStep, RemainingSteps
from perdure.types import Send


@dataclass
class Point:
    x: int
    trail: Annotated[list[int], operator.add] = field(default_factory=list)


class Model(BaseModel):
    count: int
    note: str = "none"


class State(TypedDict):
    words: Annotated[list[str], operator.add]


class Secret(TypedDict):
    secret: str


class Question(TypedDict):
    question: str


class Answer(TypedDict):
    answer: str


class Limits(TypedDict):
    seen: Annotated[list[Any], operator.add]
    left: RemainingSteps
    last: IsLastStep


def one(schema: Any, action: Any, **more: Any) -> Any:
    made: StateGraph[Any] = StateGraph(schema, **more).add_node("n", action).add_edge(START, "n")
    return made.compile()


# -- classes


def test_a_dataclass_state(drive: Any) -> None:
    """Nodes get instances and may return them; the result is a dict."""

    def step(state: Point) -> Point:
        assert isinstance(state, Point)
        return Point(state.x + 1, [state.x])

    assert drive.invoke(one(Point, step), {"x": 1}) == {"x": 2, "trail": [1]}
    assert drive.invoke(one(Point, step), Point(1, [0])) == {"x": 2, "trail": [0, 1]}


def test_a_model_state_is_validated_at_each_node(drive: Any) -> None:
    """What is read is converted; what was written stays as it was."""
    seen = []

    def step(state: Model) -> dict[str, Any]:
        seen.append(state)
        return {"note": "seen"}

    assert drive.invoke(one(Model, step), {"count": "3"}) == {"count": "3", "note": "seen"}
    assert seen == [Model(count=3)]


@pytest.mark.parametrize("given", [{"count": "many"}, {"note": "no count"}, {}])
def test_an_invalid_input_never_reaches_a_node(drive: Any, given: dict[str, Any]) -> None:
    """Pydantic's own error comes out."""

    def step(state: Model) -> None:
        raise AssertionError("must not run")

    with pytest.raises(ValidationError):
        drive.invoke(one(Model, step), given)


def test_an_invalid_write_fails_at_the_next_node(drive: Any) -> None:
    """Writes are not validated on their way in."""
    made: StateGraph[Any] = StateGraph(Model).add_node("a", lambda state: {"count": "many"})
    made.add_node("b", lambda state: None).add_edge(START, "a").add_edge("a", "b")
    with pytest.raises(ValidationError):
        drive.invoke(made.compile(), {"count": 1})


def test_an_input_of_some_fields_goes_with_the_state_that_is_there(
    drive: Any, saver: Any, thread: Any
) -> None:
    """What a node gets is validated, not what the caller gives."""
    made: StateGraph[Any] = StateGraph(Model).add_node("n", lambda state: {"note": state.note + "!"})
    compiled = made.add_edge(START, "n").compile(saver)
    drive.invoke(compiled, {"count": 1, "note": "a"}, thread())
    assert drive.invoke(compiled, {"note": "b"}, thread()) == {"count": 1, "note": "b!"}


def test_packets_are_not_validated(drive: Any) -> None:
    """The argument of a Send is handed over as it is."""
    seen: list[Any] = []
    made: StateGraph[Any] = StateGraph(Model).add_node("n", lambda state: seen.append(state))
    made.add_conditional_edges(START, lambda state: [Send("n", {"other": 1})])
    drive.invoke(made.compile(), {"count": 1})
    assert seen == [{"other": 1}]


def test_a_conditional_edge_gets_the_class_too(drive: Any) -> None:
    """The state it reads is an instance of the schema."""
    made: StateGraph[Any] = StateGraph(Point).add_node("n", lambda state: {"trail": [state.x]})
    made.add_conditional_edges(START, lambda state: "n" if isinstance(state, Point) else "nowhere")
    assert drive.invoke(made.compile(), {"x": 1}) == {"x": 1, "trail": [1]}


# -- several schemas


def test_private_keys_pass_between_nodes(drive: Any) -> None:
    """A key that only nodes declare is read where it is declared, and not returned."""

    def hide(state: State) -> dict[str, Any]:
        assert "secret" not in state
        return {"secret": "s"}

    def show(state: Secret) -> dict[str, Any]:
        assert state == {"secret": "s"}
        return {"words": [state["secret"]]}

    made: StateGraph[Any] = StateGraph(State).add_node("hide", hide).add_node("show", show)
    compiled = made.add_edge(START, "hide").add_edge("hide", "show").compile()
    assert drive.invoke(compiled, {"words": []}) == {"words": ["s"]}
    assert drive.stream(compiled, {"words": []}, stream_mode="values")[-1] == {"words": ["s"], "secret": "s"}


def test_private_keys_are_not_taken_from_callers(drive: Any) -> None:
    """An input key that the input schema does not have is dropped."""
    seen = []

    def look(state: Secret) -> None:
        seen.append(state)

    drive.invoke(one(State, look), {"words": [], "secret": "given"})
    assert seen == [{}]


def test_input_and_output_have_schemas_of_their_own(drive: Any) -> None:
    """invoke takes the one and returns the other; values streams show all."""

    def think(state: Question) -> dict[str, Any]:
        return {"answer": state["question"] + "!", "words": ["w"]}

    compiled = one(State, think, input_schema=Question, output_schema=Answer)
    assert drive.invoke(compiled, {"question": "why"}) == {"answer": "why!"}
    assert drive.stream(compiled, {"question": "why"}, stream_mode="values")[-1] == {
        "words": ["w"],
        "question": "why",
        "answer": "why!",
    }


def test_unknown_input_keys_are_dropped(drive: Any) -> None:
    """Without a warning."""
    assert drive.invoke(one(State, lambda state: None), {"words": ["a"], "typo": 1}) == {"words": ["a"]}


def test_an_empty_input_runs_the_graph(drive: Any) -> None:
    """`{}` is an input like any other."""
    assert drive.invoke(one(State, lambda state: {"words": ["ran"]}), {}) == {"words": ["ran"]}


def test_an_unknown_key_of_a_node_is_warned_about(drive: Any) -> None:
    """The result goes on without it."""
    with pytest.warns(UserWarning, match="Node 'n' returned 'results'"):
        assert drive.invoke(one(State, lambda state: {"results": 1}), {"words": []}) == {"words": []}


def test_an_input_of_the_wrong_kind_is_refused(drive: Any) -> None:
    """A state of keys wants a dict."""
    with pytest.raises(InvalidUpdateError, match="Expected dict, got foo"):
        drive.invoke(one(State, lambda state: None), "foo")


@pytest.mark.parametrize("output", ["foo", 3, ["a"]])
def test_an_output_of_the_wrong_kind_is_refused(drive: Any, output: Any) -> None:
    """So does what a node returns."""
    with pytest.raises(InvalidUpdateError, match="Expected dict, got"):
        drive.invoke(one(State, lambda state: output), {"words": []})


# -- one value


def test_a_bare_value_is_the_state(drive: Any) -> None:
    """It is given, handed on and returned as it is."""
    made: StateGraph[Any] = StateGraph(str).add_node("a", lambda s: s + "a").add_node("b", lambda s: s + "b")
    compiled = made.add_edge(START, "a").add_edge("a", "b").compile()
    assert drive.invoke(compiled, "x") == "xab"
    assert drive.stream(compiled, "x", stream_mode="values") == ["x", "xa", "xab"]


def test_a_bare_value_may_have_a_reducer(drive: Any) -> None:
    """Each node's output is reduced into it."""
    compiled = one(Annotated[list[int], operator.add], lambda state: [len(state)])
    assert drive.invoke(compiled, [7, 8]) == [7, 8, 2]


# -- computed values


def test_remaining_steps_count_down(drive: Any) -> None:
    """The n-th node superstep of a limit of L sees L - n left."""

    def look(state: Limits) -> dict[str, Any]:
        return {"seen": [(state["left"], state["last"])]}

    made: StateGraph[Any] = StateGraph(Limits)
    made.add_sequence([("a", look), ("b", look), ("c", look)]).add_edge(START, "a")
    result = drive.invoke(made.compile(), {"seen": []}, {"recursion_limit": 4})
    assert [left for left, _ in result["seen"]] == [3, 2, 1]
    assert result.keys() == {"seen"}


def test_the_last_step_is_flagged(drive: Any) -> None:
    """The superstep after which the limit is reached."""

    def look(state: Limits) -> dict[str, Any]:
        return {"seen": [state["last"]]}

    made: StateGraph[Any] = StateGraph(Limits)
    made.add_sequence([("a", look), ("b", look), ("c", look)]).add_edge(START, "a")
    assert drive.invoke(made.compile(), {"seen": []}, {"recursion_limit": 3})["seen"] == [False, False, True]


def test_a_computed_value_may_be_passed_on(drive: Any) -> None:
    """A node that returns all it got does not write it, and is not warned."""
    compiled = one(Limits, lambda state: {**state, "seen": ["n"]})
    assert drive.invoke(compiled, {"seen": []}) == {"seen": ["n"]}


# -- messages


def content(message: Any) -> str:
    text: str = message["content"] if isinstance(message, dict) else message.content
    return text


def test_messages_are_added(drive: Any) -> None:
    """A conversation grows by what nodes return."""
    compiled = one(MessagesState, lambda state: {"messages": [("ai", "hello")]})
    result = drive.invoke(compiled, {"messages": [{"role": "user", "content": "hi"}]})
    assert [content(message) for message in result["messages"]] == ["hi", "hello"]


def test_messages_of_a_thread_keep_their_ids(drive: Any, saver: Any, thread: Any) -> None:
    """A message that comes back with its id replaces the one that is there."""

    def identity(message: Any) -> Any:
        return message["id"] if isinstance(message, dict) else message.id

    compiled = one(MessagesState, lambda state: None)
    made: StateGraph[Any] = StateGraph(MessagesState).add_node("n", lambda state: None).add_edge(START, "n")
    compiled = made.compile(saver)
    (first,) = drive.invoke(compiled, {"messages": "hi"}, thread())["messages"]
    (second,) = drive.invoke(
        compiled, {"messages": {"role": "user", "content": "bye", "id": identity(first)}}, thread()
    )["messages"]
    assert (identity(second), content(second)) == (identity(first), "bye")
