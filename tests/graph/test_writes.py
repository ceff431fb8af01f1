"""What a node returned becomes writes: state keys, then where it goes, then its edges."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from perdure.constants import END, START
from perdure.engine.program import Node, Program
from perdure.errors import InvalidUpdateError, ParentCommand
from perdure.graph.state import StateGraph
from perdure.managed import RemainingSteps
from perdure.types import Command, Overwrite, Send


class State(TypedDict):
    words: Annotated[list[str], operator.add]
    mood: str
    left: RemainingSteps


def idle(state: Any) -> None:
    return None


def program(schema: Any = State, **compiling: Any) -> Program:
    graph: StateGraph[Any] = StateGraph(schema)
    graph.add_sequence([("x", idle), ("y", idle)]).add_edge(START, "x").add_edge("y", END)
    return graph.compile(**compiling).program


def x(schema: Any = State) -> Node:
    return program(schema).nodes["x"]


EDGE = ("branch:to:y", None)


@pytest.mark.parametrize(
    ("output", "writes"),
    [
        (None, []),
        ({}, []),
        ({"mood": None}, [("mood", None)]),
        ({"mood": "a", "words": ["b"]}, [("mood", "a"), ("words", ["b"])]),
        (OrderedDict(mood="a"), [("mood", "a")]),
        ({"words": Overwrite(["b"])}, [("words", Overwrite(["b"]))]),
        ({"mood": "a", "left": 3}, [("mood", "a")]),
        (Command(update={"mood": "a"}), [("mood", "a")]),
        (Command(update=[("words", ["a"]), ("words", ["b"])]), [("words", ["a"]), ("words", ["b"])]),
        (Command(update=[]), []),
        (Command(), []),
        ([Command(update={"mood": "a"}), {"words": ["b"]}, None], [("mood", "a"), ("words", ["b"])]),
        (({"words": ["b"]}, Command(update={"mood": "a"})), [("words", ["b"]), ("mood", "a")]),
    ],
)
def test_state_keys_are_written_in_order(output: Any, writes: list[Any]) -> None:
    """Each kind of output says which keys it writes; the edge follows whatever it was."""
    assert list(x().write(output)) == [*writes, EDGE]


@pytest.mark.parametrize("output", ["foo", 3, [{"mood": "a"}], ("mood", "a"), [], Send("x", {"mood": "a"})])
def test_other_outputs_are_refused(output: Any) -> None:
    """What says nothing of the state's keys names the node."""
    with pytest.raises(InvalidUpdateError, match=r"Node 'x'.*Expected dict, got") as failure:
        x().write(output)
    assert str(failure.value).endswith("INVALID_GRAPH_NODE_RETURN_VALUE")


def test_a_command_cannot_update_with_a_bare_value() -> None:
    """A state of keys has no place for it."""
    with pytest.raises(InvalidUpdateError, match=r"Node 'x', in Command.update: Expected dict, got foo"):
        x().write(Command(update="foo"))


# -- instances of classes


@dataclass
class Update:
    mood: str | None = None
    words: Annotated[list[str] | None, operator.add] = None


class Model(BaseModel):
    mood: str | None = None
    words: list[str] = []
    note: str | None = "n"


def test_a_dataclass_writes_all_its_fields() -> None:
    """Those that are None too."""
    assert list(x().write(Update(mood="a"))) == [("mood", "a"), ("words", None), EDGE]


def test_a_model_writes_what_was_set() -> None:
    """A field left at its default of None is no write; set to None it is one."""
    node = x(Model)
    assert list(node.write(Model(words=["a"]))) == [("words", ["a"]), ("note", "n"), EDGE]
    assert list(node.write(Model(mood=None))) == [("mood", None), ("words", []), ("note", "n"), EDGE]
    assert ("note", None) in node.write(Model(note=None))


def test_a_command_updates_with_an_instance() -> None:
    """Instances work inside Commands."""
    assert list(x().write(Command(update=Update(mood="a", words=[])))) == [("mood", "a"), ("words", []), EDGE]


# -- where to go


def test_a_command_goes_to_nodes_and_sends() -> None:
    """Names trigger nodes, Sends become packets, END is nothing; edges are followed besides."""
    send = Send("x", 1)
    output = Command(update={"mood": "a"}, goto=["x", send, END])
    assert list(x().write(output)) == [
        ("mood", "a"),
        ("branch:to:x", None),
        ("__pregel_tasks", send),
        EDGE,
    ]


@pytest.mark.parametrize("goto", ["x", ("x",), ["x"]])
def test_goto_takes_one_or_several(goto: Any) -> None:
    """A name alone is a list of one."""
    assert list(x().write(Command(goto=goto))) == [("branch:to:x", None), EDGE]


def test_going_follows_all_updates() -> None:
    """In a list of Commands the state is written first, then all targets."""
    output = [Command(update={"mood": "a"}, goto="x"), Command(update={"words": ["b"]}, goto="y")]
    assert list(x().write(output)) == [
        ("mood", "a"),
        ("words", ["b"]),
        ("branch:to:x", None),
        ("branch:to:y", None),
        EDGE,
    ]


@pytest.mark.parametrize("goto", ["q", START, [Send("q", 1)], Send(START, 1)])
def test_going_nowhere_is_an_error(goto: Any) -> None:
    """An unknown target is named with the node that named it."""
    with pytest.raises(InvalidUpdateError, match=r"Node 'x'.*('q'|START|'__start__')"):
        x().write(Command(goto=goto))


def test_no_packet_goes_to_end() -> None:
    """END runs nothing that could take it."""
    with pytest.raises(InvalidUpdateError, match="Cannot send a packet to the END node"):
        x().write(Command(goto=Send(END, 1)))


@pytest.mark.parametrize("goto", [3, [3], {"x": 1}])
def test_goto_is_a_name_or_a_send(goto: Any) -> None:
    """Anything else is a type error."""
    with pytest.raises(TypeError, match=r"In Command.goto, expected"):
        x().write(Command(goto=goto))


@pytest.mark.parametrize("graph", [Command.PARENT, "outer"])
def test_a_command_for_another_graph_is_raised(graph: str) -> None:
    """It leaves nothing here, also from within a list."""
    command = Command(graph=graph, update={"mood": "a"}, goto="elsewhere")
    with pytest.raises(ParentCommand) as raised:
        x().write([{"mood": "b"}, command])
    assert raised.value.command is command


# -- unknown keys


def test_an_unknown_key_is_told_once() -> None:
    """The first time a node returns a key that no schema knows, a warning names both."""
    node = x()
    with pytest.warns(UserWarning, match=r"Node 'x' returned 'moods', which no schema"):
        assert list(node.write({"moods": "a", "mood": "b"})) == [("mood", "b"), EDGE]
    assert list(node.write({"moods": "a"})) == [EDGE]
    with pytest.warns(UserWarning, match="'wrods'"):
        node.write(Command(update={"wrods": [], "moods": "a"}))


def test_unknown_keys_of_a_subgraph_are_dropped_without_a_word() -> None:
    """A child's other keys are its own business."""
    child = StateGraph(State).add_node("c", idle).add_edge(START, "c").compile()
    graph: StateGraph[Any] = StateGraph(State).add_node("child", child).add_edge(START, "child")
    assert list(graph.compile().program.nodes["child"].write({"private": 1, "mood": "a"})) == [("mood", "a")]


def test_the_channel_of_packets_is_not_written() -> None:
    """Its name is refused rather than dropped."""
    with pytest.raises(InvalidUpdateError, match="'__pregel_tasks' is reserved"):
        x().write({"__pregel_tasks": [Send("x", 1)]})


# -- a state of one value


@pytest.mark.parametrize(
    ("output", "writes"),
    [
        (None, []),
        ("a", ["a"]),
        ([], [[]]),
        ({"mood": 1}, [{"mood": 1}]),
        (Command(update={"mood": 1}), [{"mood": 1}]),
        (Command(update=[("user", "hi")]), [[("user", "hi")]]),
        (Command(update={"__root__": 1}), [1]),
        (Command(update=[("__root__", 1), ("__root__", 2)]), [1, 2]),
        (Command(), []),
        ([Command(update="a"), None, "b"], ["a", "b"]),
    ],
)
def test_a_root_state_takes_any_value(output: Any, writes: list[Any]) -> None:
    """Whatever is returned is the value; a Command's update too."""
    assert list(x(dict).write(output)) == [*(("__root__", value) for value in writes), EDGE]


def test_a_root_state_goes_where_its_commands_say() -> None:
    """Targets come after the value."""
    assert list(x(int).write(Command(update=3, goto="x"))) == [("__root__", 3), ("branch:to:x", None), EDGE]


# -- the input


def test_the_input_triggers_start() -> None:
    """The input is handed to START as it came."""
    made = program()
    assert list(made.write_input({"mood": "a"})) == [("__start__", {"mood": "a"})]
    assert made.nodes[START].triggers == ("__start__",)
    assert made.nodes[START].hidden


def test_start_writes_known_keys() -> None:
    """Unknown keys of an input are dropped without a warning; START's edges follow."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writes = program().nodes[START].write({"mood": "a", "typo": 1})
    assert list(writes) == [("mood", "a"), ("branch:to:x", None)]


def test_start_writes_keys_of_the_input_schema_only() -> None:
    """Private keys of the state are not for callers."""

    class In(TypedDict):
        mood: str

    graph: StateGraph[Any] = StateGraph(State, input_schema=In).add_node("x", idle).add_edge(START, "x")
    start = graph.compile().program.nodes[START]
    assert list(start.write({"mood": "a", "words": ["b"]})) == [("mood", "a"), ("branch:to:x", None)]


@pytest.mark.parametrize("given", ["foo", [("mood", "a")], 3])
def test_an_input_for_keys_is_a_dict(given: Any) -> None:
    """Anything else is refused before anything is stored."""
    with pytest.raises(InvalidUpdateError, match="The input: Expected dict, got"):
        program().write_input(given)


def test_an_input_may_be_an_instance() -> None:
    """Of the schema's class."""
    made = program(Model)
    (write,) = made.write_input(Model(mood="a"))
    assert ("mood", "a") in made.nodes[START].write(write[1])


def test_a_command_as_input_writes_and_goes() -> None:
    """Its update and its targets are those of a node's, without edges."""
    command: Command[Any] = Command(update={"words": ["a"]}, goto="y")
    assert list(program().write_command(command)) == [("words", ["a"]), ("branch:to:y", None)]


def test_a_command_as_input_has_no_parent() -> None:
    """There is nobody above a graph that is called from outside."""
    with pytest.raises(InvalidUpdateError, match="There is no parent graph"):
        program().write_command(Command(graph=Command.PARENT, update={"mood": "a"}))


# -- edges and joins


def test_a_join_is_told_who_is_through() -> None:
    """Each start writes its name to the join's channel, which triggers the end."""
    graph: StateGraph[Any] = StateGraph(State)
    for name in "abc":
        graph.add_node(name, idle)
    made = graph.add_edge(START, "a").add_edge(["b", "a"], "c").compile().program
    assert list(made.nodes["a"].write(None)) == [("join:b+a:c", "a")]
    assert list(made.nodes["b"].write(None)) == [("join:b+a:c", "b")]
    assert made.nodes["c"].triggers == ("branch:to:c", "join:b+a:c")
    assert made.trigger_to_nodes["join:b+a:c"] == ("c",)


def test_an_edge_to_end_writes_nothing() -> None:
    """END is where nothing follows."""
    assert list(program().nodes["y"].write(None)) == []
