"""Graphs in graphs: as nodes, and called by nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from perdure.errors import InvalidUpdateError
from perdure.graph import START, StateGraph
from perdure.types import Command, interrupt


class State(TypedDict):
    words: Annotated[list[str], operator.add]
    mood: str


class Child(TypedDict):
    mood: str
    draft: str


class Counter(TypedDict):
    runs: Annotated[list[str], operator.add]


def says(word: str) -> Callable[[Any], dict[str, list[str]]]:
    return lambda state: {"words": [word]}


def chain(schema: Any, **nodes: Any) -> StateGraph[Any]:
    made: StateGraph[Any] = StateGraph(schema)
    return made.add_sequence(list(nodes.items())).add_edge(START, next(iter(nodes)))


def test_a_graph_is_a_node(drive: Any) -> None:
    """It reads and writes the keys that both declare; the others stay its own."""

    def draft(state: Child) -> dict[str, str]:
        return {"draft": state["mood"] + "?"}

    def settle(state: Child) -> dict[str, str]:
        return {"mood": state["draft"] + "!"}

    child = chain(Child, draft=draft, settle=settle).compile()
    parent = chain(State, child=child).compile()
    assert drive.invoke(parent, {"mood": "fine", "words": ["a"]}) == {"mood": "fine?!", "words": ["a"]}


def test_a_childs_reduced_key_is_reduced_again(drive: Any) -> None:
    """It returns its whole list, and the parent's reducer adds all of it."""
    child = chain(State, c=says("c")).compile()
    assert drive.invoke(chain(State, child=child).compile(), {"words": ["i"]})["words"] == ["i", "i", "c"]


def test_a_graph_is_called_by_a_node(drive: Any) -> None:
    """What goes in and out is then up to the node."""
    child = chain(Child, c=lambda state: {"draft": state["mood"] + "?"}).compile()

    def call(state: State) -> dict[str, Any]:
        return {"words": [child.invoke({"mood": state["mood"]})["draft"]]}

    assert drive.invoke(chain(State, call=call).compile(), {"mood": "m", "words": []})["words"] == ["m?"]


def test_a_graph_without_a_name_is_a_node_by_its_default_name(drive: Any) -> None:
    """Given alone, a graph's own name is the node's."""
    child = chain(State, c=says("c")).compile(name="helper")
    parent: StateGraph[Any] = StateGraph(State).add_node(child).add_edge(START, "helper")
    assert "c" in drive.invoke(parent.compile(), {"words": []})["words"]


def test_a_paused_child_goes_on_where_it_stopped(drive: Any, saver: Any, thread: Any) -> None:
    """Its finished nodes do not run again."""
    ran = []

    def first(state: State) -> dict[str, Any]:
        ran.append("first")
        return {"words": ["first"]}

    def ask(state: State) -> dict[str, Any]:
        ran.append("ask")
        return {"words": [interrupt("go on?")]}

    child = chain(State, first=first, ask=ask).compile()
    parent = chain(State, child=child, after=says("after")).compile(saver)
    paused = drive.invoke(parent, {"words": []}, thread())
    assert [question.value for question in paused["__interrupt__"]] == ["go on?"]
    assert drive.invoke(parent, Command(resume="yes"), thread())["words"] == ["first", "yes", "after"]
    assert ran == ["first", "ask", "ask"]


def test_a_paused_child_that_a_node_called_goes_on_too(drive: Any, saver: Any, thread: Any) -> None:
    """The node starts from its top, the child inside where it stopped."""
    ran = []

    def first(state: State) -> dict[str, Any]:
        ran.append("first")
        return {"words": ["first"]}

    child = chain(State, first=first, ask=lambda state: {"words": [interrupt("go on?")]}).compile()

    def call(state: State) -> dict[str, Any]:
        ran.append("call")
        return {"words": child.invoke({"words": []})["words"]}

    parent = chain(State, call=call).compile(saver)
    drive.invoke(parent, {"words": []}, thread())
    assert drive.invoke(parent, Command(resume="yes"), thread())["words"] == ["first", "yes"]
    assert ran == ["call", "first", "call"]


def test_a_failed_child_goes_on_where_it_failed(drive: Any, saver: Any, thread: Any) -> None:
    """invoke(None) runs the failed node of the child, not those before it."""
    ran = []

    def first(state: State) -> dict[str, Any]:
        ran.append("first")
        return {"words": ["first"]}

    def fragile(state: State) -> dict[str, Any]:
        ran.append("fragile")
        if ran.count("fragile") == 1:
            raise RuntimeError("once")
        return {"words": ["fragile"]}

    parent = chain(State, child=chain(State, first=first, fragile=fragile).compile()).compile(saver)
    with pytest.raises(RuntimeError, match="once"):
        drive.invoke(parent, {"words": []}, thread())
    assert drive.invoke(parent, None, thread())["words"] == ["first", "fragile"]
    assert ran == ["first", "fragile", "fragile"]


# -- Commands to the parent


def test_a_command_to_the_parent_updates_and_goes(drive: Any) -> None:
    """It counts as if the node that contains the child had returned it."""

    def leave(state: State) -> Any:
        return Command(graph=Command.PARENT, update={"words": ["from below"]}, goto="b")

    made = chain(State, child=chain(State, leave=leave).compile())
    compiled = made.add_node("b", says("b")).compile()
    assert drive.invoke(compiled, {"words": ["i"]})["words"] == ["i", "from below", "b"]


def test_a_command_to_the_parent_leaves_the_childs_own_writes_behind(drive: Any) -> None:
    """Nothing that the child's nodes wrote reaches the parent, but the containing node's edges are taken."""

    def leave(state: State) -> Any:
        return Command(graph=Command.PARENT, update={"words": ["from below"]})

    child = chain(State, first=says("first"), leave=leave).compile()
    parent = chain(State, child=child, after=says("after")).compile()
    assert drive.invoke(parent, {"words": []})["words"] == ["from below", "after"]


def test_a_command_may_name_its_ancestor(drive: Any) -> None:
    """By the name of the node that contains it."""

    def leave(state: State) -> Any:
        return Command(graph="outer", update={"words": ["from below"]})

    inner = chain(State, inner=chain(State, leave=leave).compile()).compile()
    parent = chain(State, outer=inner).compile()
    assert drive.invoke(parent, {"words": []})["words"] == ["from below"]


def test_a_root_has_no_parent(drive: Any) -> None:
    """A Command that nobody is there to take is an error, not a signal that escapes."""
    compiled = chain(State, leave=lambda state: Command(graph=Command.PARENT)).compile()
    with pytest.raises(InvalidUpdateError, match="There is no parent graph"):
        drive.invoke(compiled, {"words": []})


# -- state of children


@pytest.mark.parametrize(("checkpointer", "runs"), [(None, 1), (True, 2), (False, 1)])
def test_what_a_child_keeps(drive: Any, saver: Any, thread: Any, checkpointer: Any, runs: int) -> None:
    """Only with `checkpointer=True` does it find what its last call left."""
    seen = []

    def count(state: Counter) -> dict[str, Any]:
        seen.append(len(state["runs"]))
        return {"runs": ["run"]}

    child = chain(Counter, count=count).compile(checkpointer=checkpointer)

    def call(state: State) -> dict[str, Any]:
        child.invoke({"runs": []})
        return {"words": ["called"]}

    parent = chain(State, call=call).compile(saver)
    drive.invoke(parent, {"words": []}, thread())
    drive.invoke(parent, {"words": []}, thread())
    assert seen == [0, runs - 1]


def test_a_stateful_graph_is_no_root(drive: Any, thread: Any) -> None:
    """`checkpointer=True` needs a parent whose saver it takes."""
    compiled = chain(State, a=says("a")).compile(checkpointer=True)
    with pytest.raises(RuntimeError):
        drive.invoke(compiled, {"words": []}, thread())


def test_a_child_streams_under_its_namespace(drive: Any) -> None:
    """With subgraphs=True its updates are seen, beside those of the parent."""
    parent = chain(State, child=chain(State, c=says("c")).compile()).compile()
    chunks = drive.stream(parent, {"words": []}, stream_mode="updates", subgraphs=True)
    ((ns, first), (root, last)) = chunks
    assert (root, last) == ((), {"child": {"words": ["c"]}})
    assert first == {"c": {"words": ["c"]}}
    assert len(ns) == 1
    assert ns[0].startswith("child:")


def test_declared_subgraphs_can_be_listed() -> None:
    """By the names of their nodes, nested ones with the path to them."""
    inner = chain(State, c=says("c")).compile()
    middle = chain(State, inner=inner).compile()
    outer = chain(State, plain=says("p"), middle=middle).compile()
    assert dict(outer.get_subgraphs()) == {"middle": middle}
    assert dict(outer.get_subgraphs(recurse=True)) == {"middle": middle, "middle|inner": inner}
