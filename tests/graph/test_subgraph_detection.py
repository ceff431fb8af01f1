"""Which workflows a node is seen to contain, without running anything."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import pytest
from typing_extensions import TypedDict

from perdure.constants import START
from perdure.engine.subgraphs import subgraphs_of
from perdure.graph.state import StateGraph


class State(TypedDict):
    mood: str


def idle(state: Any) -> None:
    return None


def compiled(**compiling: Any) -> Any:
    return StateGraph(State).add_node("x", idle).add_edge(START, "x").compile(**compiling)


CHILD = compiled()
OTHER = compiled()
HOME = types.SimpleNamespace(rooms=types.SimpleNamespace(child=CHILD))
LISTED = [CHILD]


def by_global(state: Any) -> Any:
    return CHILD.invoke(state)


def by_chain(state: Any) -> Any:
    return HOME.rooms.child.invoke(state)


def in_a_container(state: Any) -> Any:
    return LISTED[0].invoke(state)


def in_an_inner_function(state: Any) -> Any:
    def call() -> Any:
        return CHILD.invoke(state)

    return call()


def the_first_of_two(state: Any) -> Any:
    return OTHER.invoke(CHILD.invoke(state))


def through_a_helper(state: Any) -> Any:
    return by_global(state)


def by_closure() -> Callable[[Any], Any]:
    child = CHILD

    def call(state: Any) -> Any:
        return child.invoke(state)

    return call


async def by_await(state: Any) -> Any:
    return await CHILD.ainvoke(state)


def wrapped() -> Callable[[Any], Any]:
    @functools.wraps(by_global)
    def call(*args: Any) -> Any:
        return args

    return call


class Agent:
    def __init__(self) -> None:
        self.child = CHILD

    def run(self, state: Any) -> Any:
        return self.child.invoke(state)

    def run_twice(self, state: Any) -> Any:
        return [self.child.invoke(state) for _ in range(2)]

    def __call__(self, state: Any) -> Any:
        return self.child.invoke(state)

    @property
    def costly(self) -> Any:
        raise AssertionError("properties are not asked")

    def ask(self, state: Any) -> Any:
        return self.costly.child


class Slotted:
    __slots__ = ("child",)

    def __init__(self) -> None:
        self.child = CHILD

    def run(self, state: Any) -> Any:
        return self.child.invoke(state)


@pytest.mark.parametrize(
    "action",
    [
        CHILD,
        by_global,
        by_chain,
        in_an_inner_function,
        by_closure(),
        by_await,
        wrapped(),
        functools.partial(by_global),
        Agent().run,
        Agent().run_twice,
        Agent(),
        Slotted().run,
    ],
)
def test_a_workflow_is_found(action: Any) -> None:
    """As the node itself, in a closure, a global, or an attribute of one."""
    assert subgraphs_of(action) == (CHILD,)


@pytest.mark.parametrize("action", [idle, in_a_container, through_a_helper, Agent().ask, len, {"a": CHILD}])
def test_what_cannot_be_seen_is_not_found(action: Any) -> None:
    """Containers, other functions and properties are not searched."""
    assert subgraphs_of(action) == ()


def test_only_the_first_is_declared() -> None:
    """In the order in which the code names them."""
    assert subgraphs_of(the_first_of_two) == (OTHER,)


def test_a_workflow_without_state_of_its_own_is_not_declared() -> None:
    """`checkpointer=False` leaves nothing to look at."""
    stateless = compiled(checkpointer=False)
    assert subgraphs_of(stateless) == ()
    assert subgraphs_of(lambda state: stateless.invoke(state)) == ()


def test_nodes_declare_what_was_found() -> None:
    """The program says it of each node."""
    graph = StateGraph(State).add_node("a", by_global).add_node("b", CHILD).add_node("c", idle)
    nodes = graph.add_edge(START, "a").compile().program.nodes
    assert [nodes[name].subgraphs for name in "abc"] == [(CHILD,), (CHILD,), ()]


def test_a_variable_without_a_value_yet_is_passed_over() -> None:
    """A closure may be defined before what it refers to."""

    def call(state: Any) -> Any:
        return later.invoke(state)

    assert subgraphs_of(call) == ()
    later = CHILD
    assert subgraphs_of(call) == (CHILD,)
