"""Tasks inside tasks, inside nodes, and workflows inside both."""

import asyncio
from typing import TypedDict

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph

T = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    n: int
    out: int


@task
def inc(x):
    return x + 1


@task
def inc_twice(x):
    return inc(inc(x).result()).result()


def graph_of(node, saver=None):
    """A graph with the one node."""
    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(checkpointer=saver)


def test_task_calls_tasks(drive, saver):
    """A task may call tasks."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return inc_twice(x).result()

    assert drive.invoke(workflow, 1, T) == 3


def test_node_calls_tasks(drive, saver):
    """The documents' pattern: start all, then ask each for its result."""

    def node(state):
        futures = [inc(i) for i in range(state["n"])]
        return {"out": sum(f.result() for f in futures)}

    assert drive.invoke(graph_of(node, saver), {"n": 3}, T) == {"n": 3, "out": 6}


def test_async_node_awaits_tasks(saver):
    """An async node awaits what it calls."""

    @task
    async def ainc(x):
        return x + 1

    async def node(state):
        return {"out": sum(await asyncio.gather(*(ainc(i) for i in range(state["n"]))))}

    graph = graph_of(node, saver)
    assert asyncio.run(graph.ainvoke({"n": 3}, T)) == {"n": 3, "out": 6}


def test_body_calls_a_graph(drive, saver):
    """An entrypoint may invoke a graph as a function."""
    graph = graph_of(lambda state: {"out": state["n"] + 1})

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return graph.invoke({"n": x})["out"] + inc(x).result()

    assert drive.invoke(workflow, 1, T) == 4


def test_body_calls_an_entrypoint(drive, saver):
    """An entrypoint may invoke an entrypoint."""

    @entrypoint()
    def child(x):
        return inc(x).result() * 10

    @entrypoint(checkpointer=saver)
    def parent(x):
        return child.invoke(x) + child.invoke(x + 1)

    assert drive.invoke(parent, 1, T) == 50


def test_node_calls_an_entrypoint(drive, saver):
    """A node may invoke an entrypoint."""

    @entrypoint()
    def child(x):
        return inc(x).result()

    graph = graph_of(lambda state: {"out": child.invoke(state["n"])}, saver)
    assert drive.invoke(graph, {"n": 1}, T)["out"] == 2


def test_task_calls_a_graph(drive, saver):
    """A task may invoke a graph."""
    graph = graph_of(lambda state: {"out": inc(state["n"]).result()})

    @task
    def through_graph(x):
        return graph.invoke({"n": x})["out"]

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [f.result() for f in [through_graph(i) for i in range(3)]]

    assert drive.invoke(workflow, 1, T) == [1, 2, 3]


def test_async_child_in_async_parent(saver):
    """Async workflows nest by `ainvoke`."""

    @entrypoint()
    async def child(x):
        return await inc(x)

    @entrypoint(checkpointer=saver)
    async def parent(x):
        return sum(await asyncio.gather(child.ainvoke(x), child.ainvoke(x + 1)))

    assert asyncio.run(parent.ainvoke(1, T)) == 5


def test_error_of_a_nested_task_reaches_the_caller(drive):
    """An error climbs through the tasks until somebody catches it."""

    @task
    def fail():
        raise KeyError("deep")

    @task
    def middle():
        return fail().result()

    @entrypoint()
    def workflow(x):
        with pytest.raises(KeyError, match="deep"):
            middle().result()
        return "caught"

    assert drive.invoke(workflow, 1) == "caught"


@pytest.mark.parametrize("depth", [60, 150])
def test_deep_nesting(drive, depth):
    """Tasks may wait for tasks far deeper than any pool is wide."""

    @task
    def down(n):
        return 0 if n == 0 else down(n - 1).result() + 1

    @entrypoint()
    def workflow(n):
        return down(n).result()

    assert drive.invoke(workflow, depth) == depth


def test_wide_nesting(drive, saver):
    """Many parents, each waiting for a child, finish."""

    @entrypoint(checkpointer=saver)
    def workflow(n):
        return sum(f.result() for f in [inc_twice(i) for i in range(n)])

    assert drive.invoke(workflow, 100, T) == sum(range(100)) + 200


def test_nested_streams_are_interleaved_by_namespace(drive):
    """With `subgraphs=True` a child called in a body shows under its own namespace."""
    graph = graph_of(lambda state: {"out": state["n"] + 1})

    @entrypoint(checkpointer=InMemorySaver())
    def workflow(x):
        return graph.invoke({"n": x})["out"]

    chunks = drive.stream(workflow, 1, T, stream_mode="updates", subgraphs=True)
    spaces = [ns[0].split(":")[0] if ns else "" for ns, _ in chunks]
    assert spaces == ["workflow", ""]
    assert chunks[0][1] == {"node": {"out": 2}}
