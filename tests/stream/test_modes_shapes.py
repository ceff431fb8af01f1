"""The shapes of what `stream` yields: items of versions v1 and v2, modes, output keys, printing."""

from __future__ import annotations

import dataclasses
import operator
from collections import deque
from typing import Annotated, TypedDict

import pydantic
import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.config import get_stream_writer
from perdure.func import entrypoint
from perdure.graph import START, StateGraph
from perdure.stream.modes import BATCHES, shape_for
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    a: Annotated[list, operator.add]
    b: int


def chain(*nodes, schema=State, saver=None, **kw):
    """A graph of (name, function) one after the other."""
    graph = StateGraph(schema)
    before = START
    for name, function in nodes:
        graph.add_node(name, function)
        graph.add_edge(before, name)
        before = name
    return graph.compile(checkpointer=saver, **kw)


def two(**kw):
    return chain(("one", lambda s: {"a": ["1"]}), ("two", lambda s: {"b": 2}), **kw)


def asking(saver, *, schema=State):
    return chain(("ask", lambda s: {"a": [interrupt("?")]}), schema=schema, saver=saver)


GIVEN = {"a": ["0"]}


def test_a_mode_gives_its_payloads(drive):
    """One mode by name: the items are the payloads."""
    assert drive.stream(two(), GIVEN, stream_mode="updates") == [{"one": {"a": ["1"]}}, {"two": {"b": 2}}]


@pytest.mark.parametrize("modes", [["updates"], ("updates",)])
def test_a_sequence_of_modes_gives_pairs(drive, modes):
    """Modes in any sequence, even of one, tag each item with its mode."""
    assert drive.stream(two(), GIVEN, stream_mode=modes) == [
        ("updates", {"one": {"a": ["1"]}}),
        ("updates", {"two": {"b": 2}}),
    ]


def test_subgraphs_add_the_namespace(drive):
    """With subgraphs the namespace comes first, `()` for the root."""
    assert drive.stream(two(), GIVEN, subgraphs=True)[0] == ((), {"one": {"a": ["1"]}})
    items = drive.stream(two(), GIVEN, subgraphs=True, stream_mode=["updates"])
    assert items[0] == ((), "updates", {"one": {"a": ["1"]}})


def test_namespaces_name_the_way_to_a_graph(drive):
    """A graph run by node n is at `n:<task id>`, below its parent's namespace."""
    inner = two()
    middle = chain(("inner", inner))
    outer = chain(("middle", middle))
    items = drive.stream(outer, GIVEN, subgraphs=True)
    names = [tuple(segment.partition(":")[0] for segment in ns) for ns, _ in items]
    assert names == [("middle", "inner"), ("middle", "inner"), ("middle",), ()]


def test_a_second_call_in_one_task_is_numbered(drive):
    """The second graph called by one task has a bare number after its namespace."""
    inner = chain(("n", lambda s: {"b": 1}))

    def node(state):
        inner.invoke({})
        inner.invoke({})

    items = drive.stream(chain(("node", node)), GIVEN, subgraphs=True)
    first, second = items[0][0], items[1][0]
    assert second == (*first, "1")


def test_v2_items_are_dicts(drive):
    """Version v2 names mode, namespace and data whatever was asked for."""
    assert drive.stream(two(), GIVEN, version="v2")[0] == {
        "type": "updates", "ns": (), "data": {"one": {"a": ["1"]}},
    }  # fmt: skip


def test_v2_values_carry_interrupts(drive):
    """In v2 questions stand beside the values, not among them."""
    parts = drive.stream(asking(InMemorySaver()), GIVEN, T, stream_mode=["values", "updates"], version="v2")
    values = [part for part in parts if part["type"] == "values"]
    assert [part["interrupts"] for part in values[:1]] == [()]
    assert [question.value for question in values[-1]["interrupts"]] == ["?"]
    assert values[-1]["data"] == GIVEN


def test_v2_leaves_the_update_of_a_pause_whole(drive):
    """Taking the questions out of values does not empty the update that tells of them."""

    @entrypoint(checkpointer=InMemorySaver())
    def flow(x):
        return interrupt("?")

    parts = drive.stream(flow, 1, T, stream_mode=["values", "updates"], version="v2")
    (update,) = [part["data"] for part in parts if part["type"] == "updates"]
    assert [question.value for question in update["__interrupt__"]] == ["?"]


class Model(pydantic.BaseModel):
    a: list
    b: int = 0
    needed: str


@dataclasses.dataclass
class Data:
    a: list
    needed: str
    b: int = 0


@pytest.mark.parametrize("schema", [Model, Data])
def test_v2_values_are_instances_of_the_schema(drive, schema):
    """Values of a graph whose schema is a class are instances of it."""
    graph = chain(("one", lambda s: {"b": 1}), schema=schema)
    parts = drive.stream(graph, {"a": [], "needed": "x"}, stream_mode="values", version="v2")
    assert [part["data"] for part in parts] == [schema(a=[], needed="x"), schema(a=[], needed="x", b=1)]


@pytest.mark.parametrize("schema", [Model, Data])
def test_v2_values_that_lack_what_the_class_needs_stay_dicts(drive, schema):
    """A snapshot before a needed field was written is shown as it is."""

    class Input(TypedDict):
        a: list

    graph = StateGraph(schema, input_schema=Input)
    graph.add_node("one", lambda s: {"needed": "x", "b": 1}, input_schema=Input)
    graph.add_edge(START, "one")
    parts = drive.stream(graph.compile(), {"a": []}, stream_mode="values", version="v2")
    assert [part["data"] for part in parts] == [{"a": []}, schema(a=[], needed="x", b=1)]


def test_v2_bad_values_are_still_refused(drive):
    """What is there and wrong raises the schema's own error."""
    graph = chain(("one", lambda s: {"b": "no number"}), schema=Model)
    with pytest.raises(pydantic.ValidationError, match="b"):
        drive.stream(graph, {"a": [], "needed": "x"}, stream_mode="values", version="v2")


def test_v2_values_of_a_child_are_of_its_own_schema(drive):
    """Each graph's values come in its own schema, the parent's in the parent's."""
    child = chain(("n", lambda s: {"b": 1}), schema=Data)
    graph = StateGraph(State)
    graph.add_node("child", lambda s: {"a": child.invoke({"a": [], "needed": "x"})["a"]})
    graph.add_edge(START, "child")
    parts = drive.stream(graph.compile(), GIVEN, stream_mode="values", version="v2", subgraphs=True)
    kinds = {len(part["ns"]): type(part["data"]) for part in parts}
    assert kinds == {0: dict, 1: Data}


def test_v2_checkpoints_carry_the_state_class(drive):
    """The values in a checkpoint are of the state's class, but for the one before the start."""
    graph = chain(("one", lambda s: {"b": 1}), schema=Data, saver=InMemorySaver())
    given = {"a": [], "needed": "x"}
    parts = drive.stream(graph, given, T, stream_mode="checkpoints", version="v2")
    assert [type(part["data"]["values"]) for part in parts] == [dict, Data, Data]


def test_string_output_key_gives_the_bare_value(drive):
    """One key by name: values and updates show it bare, None where a task did not write it."""
    items = drive.stream(two(), GIVEN, output_keys="a", stream_mode=["values", "updates"])
    assert items == [
        ("values", ["0"]),
        ("updates", {"one": ["1"]}),
        ("values", ["0", "1"]),
        ("updates", {"two": None}),
    ]


def test_values_wait_for_their_output_keys(drive):
    """With output keys given, nothing is shown before one of them was written."""
    assert drive.stream(two(), GIVEN, output_keys=["b"], stream_mode="values") == [{"b": 2}]


def test_unknown_output_key_is_refused(drive):
    """An output key that is no channel is named in the error."""
    with pytest.raises(ValueError, match="Key zz not in channels"):
        drive.stream(two(), GIVEN, output_keys="zz")


@pytest.mark.parametrize("keyword", ["stream_mode", "print_mode"])
def test_unknown_modes_are_refused(drive, keyword):
    """A misspelt mode is named, with those that exist."""
    with pytest.raises(ValueError, match=r"'vals'.*values, updates"):
        drive.stream(two(), GIVEN, **{keyword: "vals"})


def test_unknown_keywords_are_refused(drive):
    """A misspelt keyword is named, at the first item at the latest."""
    with pytest.raises(TypeError, match="streem_mode"):
        drive.stream(two(), GIVEN, streem_mode="values")


def test_print_mode_prints_beside_the_stream(drive, capsys):
    """Printed modes do not change what is yielded."""
    assert drive.stream(two(), GIVEN, stream_mode="updates", print_mode="values") == [
        {"one": {"a": ["1"]}},
        {"two": {"b": 2}},
    ]
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "\x1b[1m[values]\x1b[0m {'a': ['0']}",
        "\x1b[1m[values]\x1b[0m {'a': ['0', '1']}",
        "\x1b[1m[values]\x1b[0m {'a': ['0', '1'], 'b': 2}",
    ]


def test_debug_prints_updates_and_values(drive, capsys):
    """`debug=True` prints what nodes write and the state."""
    drive.stream(two(), GIVEN, stream_mode="custom", debug=True)
    modes = [line.partition("]\x1b")[0].rpartition("[")[2] for line in capsys.readouterr().out.splitlines()]
    assert modes == ["values", "updates", "values", "updates", "values"]


def test_default_modes(drive):
    """Graphs and entrypoints stream updates."""

    @entrypoint()
    def flow(x):
        return x

    assert drive.stream(two(), GIVEN)[0] == {"one": {"a": ["1"]}}
    assert drive.stream(flow, 1) == [{"flow": 1}]


def test_a_graph_streamed_with_its_nodes_config_gives_values(drive):
    """Inside a node, under the node's own config, the default mode is values."""
    inner = two()
    seen = []

    def node(state, config):
        seen.extend(inner.stream({"a": []}, config))

    drive.invoke(chain(("node", node)), GIVEN)
    assert seen == [{"a": []}, {"a": ["1"]}, {"a": ["1"], "b": 2}]


def test_invoke_collects_the_items_of_a_mode(drive):
    """`invoke` with another mode than values returns the list of items."""
    assert drive.invoke(two(), GIVEN, stream_mode="updates") == [{"one": {"a": ["1"]}}, {"two": {"b": 2}}]


def test_a_command_with_update_streams_like_a_dict(drive):
    """A node's Command shows as what it updates; several to one key as a list."""
    graph = chain(("one", lambda s: [Command(update={"a": ["x"]}), Command(update={"a": ["y"]})]))
    assert drive.stream(graph, GIVEN) == [{"one": [{"a": ["x"]}, {"a": ["y"]}]}]
    assert drive.stream(graph, GIVEN, output_keys="a") == [{"one": [["x"], ["y"]]}]


def test_items_that_wait_come_together_for_run_objects():
    """In lists, as far as no user code has a part in their shape; others come alone."""
    waiting = deque([((), "custom", "b"), ((), "values", 1), ((), "custom", "c")])
    shape = shape_for(BATCHES, several=True, depth=True, waiting=waiting)
    assert [item["data"] for item in shape(((), "custom", "a"))] == ["a", "b"]
    assert [item["data"] for item in shape(waiting.popleft())] == [1, "c"]
    assert not waiting
    alone = shape_for(BATCHES, several=True, depth=True, waiting=None)
    assert alone(((), "custom", "a")) == {"type": "custom", "ns": (), "data": "a"}


def test_what_is_printed_is_printed_where_it_passes(capsys):
    """Also of runs that are read as objects, and without being among what they show."""

    @entrypoint()
    def flow(x):
        get_stream_writer()("a")
        get_stream_writer()("b")
        return x

    run = flow.stream_events(1, version="v3", print_mode="custom")
    assert [event["method"] for event in run] == ["values"]
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["'a'", "'b'"]
