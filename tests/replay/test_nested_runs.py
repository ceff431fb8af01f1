"""Runs called inside runs are calls like any other."""

import asyncio
from typing import TypedDict

import pytest

from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}
GO = Command(resume=True)


class State(TypedDict, total=False):
    n: int
    trail: list


@pytest.fixture
def ran():
    return []


def graph_of(*nodes, saver=None, name=None):
    """A graph that runs the (name, function) pairs one after the other."""
    builder = StateGraph(State)
    builder.add_sequence(nodes)
    builder.add_edge(START, nodes[0][0])
    return builder.compile(checkpointer=saver, name=name)


def noting(ran, name):
    def node(state):
        ran.append(name)
        return {"trail": [*state.get("trail", []), name]}

    return name, node


def test_finished_graph_call_is_restored(drive, saver, ran):
    """A graph that returned before the pause is not run again."""
    inner = graph_of(noting(ran, "a"), noting(ran, "b"))

    @entrypoint(checkpointer=saver)
    def workflow(x):
        trail = inner.invoke({"n": x})["trail"]
        return [trail, interrupt("?")]

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == [["a", "b"], True]
    assert ran == ["a", "b"]


def test_finished_entrypoint_call_is_restored(drive, saver, ran):
    """An entrypoint that returned before the pause is not run again."""

    @entrypoint()
    def inner(x):
        ran.append(x)
        return x * 2

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [inner.invoke(x), interrupt("?"), inner.invoke(x + 1)]

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == [2, True, 4]
    assert ran == [1, 2]


def test_finished_graph_call_in_a_node_is_restored(drive, saver, ran):
    """The same inside a node of a graph."""
    inner = graph_of(noting(ran, "a"))

    def node(state):
        trail = inner.invoke({"n": 1})["trail"]
        interrupt("?")
        return {"trail": trail}

    graph = graph_of(("node", node), saver=saver)
    drive.invoke(graph, {"n": 1}, T)
    assert drive.invoke(graph, GO, T)["trail"] == ["a"]
    assert ran == ["a"]


def test_unfinished_graph_call_goes_on_where_it_stopped(drive, saver, ran):
    """Inside a child graph the start is the node that stopped."""

    def ask(state):
        ran.append("ask")
        return {"trail": [*state["trail"], interrupt("?")]}

    inner = graph_of(noting(ran, "a"), ("ask", ask))

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return inner.invoke({"n": x})["trail"]

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == ["a", True]
    assert ran == ["a", "ask", "ask"]


def test_failed_graph_call_goes_on_where_it_failed(drive, saver, ran):
    """After an error the child goes on at the node that failed."""
    broken = [True]

    def flaky(state):
        ran.append("flaky")
        if broken[0]:
            raise ConnectionError("down")
        return {"trail": [*state["trail"], "flaky"]}

    inner = graph_of(noting(ran, "a"), ("flaky", flaky))

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return inner.invoke({"n": x})["trail"]

    with pytest.raises(ConnectionError):
        drive.invoke(workflow, 1, T)
    broken[0] = False
    assert drive.invoke(workflow, None, T) == ["a", "flaky"]
    assert ran == ["a", "flaky", "flaky"]


def test_calls_of_a_nested_entrypoint_are_found(drive, saver, ran):
    """An entrypoint that stopped half-way finds its own finished tasks."""

    @task
    def work(i):
        ran.append(i)
        return i

    @entrypoint()
    def inner(x):
        return [work(1).result(), interrupt("?"), work(2).result()]

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return inner.invoke(x)

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == [1, True, 2]
    assert ran == [1, 2]


def test_runs_called_in_a_task_are_restored_with_it(drive, saver, ran):
    """A task that ran a graph is one call: its result is enough."""
    inner = graph_of(noting(ran, "a"))

    @task
    def work(x):
        return inner.invoke({"n": x})["trail"]

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [work(x).result(), interrupt("?")]

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == [["a"], True]
    assert ran == ["a"]


def test_two_calls_of_one_child_keep_their_own(drive, saver, ran):
    """Several calls of the same graph in one body do not mix."""

    def ask(state):
        ran.append(state["n"])
        return {"trail": [state["n"], interrupt(f"question {state['n']}")]}

    inner = graph_of(("ask", ask))

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [inner.invoke({"n": 1})["trail"], inner.invoke({"n": 2})["trail"]]

    first = drive.invoke(workflow, 1, T)
    assert [i.value for i in first["__interrupt__"]] == ["question 1"]
    second = drive.invoke(workflow, Command(resume="one"), T)
    assert [i.value for i in second["__interrupt__"]] == ["question 2"]
    assert drive.invoke(workflow, Command(resume="two"), T) == [[1, "one"], [2, "two"]]
    assert ran == [1, 1, 2, 2]


def test_child_called_in_front_by_a_deploy_does_not_shift_the_others(drive, saver, ran):
    """A child's namespace is the recorded one, not its place among the calls."""

    def ask(state):
        ran.append(("ask", state["n"]))
        return {"trail": [state["n"], interrupt("?")]}

    asking = graph_of(noting(ran, "before"), ("ask", ask), name="asking")
    plain = graph_of(noting(ran, "plain"), name="plain")

    def old(x):
        return asking.invoke({"n": x})["trail"]

    def new(x):
        return [plain.invoke({"n": x})["trail"], asking.invoke({"n": x})["trail"]]

    def deploy(body, **options):
        def workflow(x):
            return body(x)

        return entrypoint(checkpointer=saver, **options)(workflow)

    drive.invoke(deploy(old), 1, T)
    result = drive.invoke(deploy(new, on_divergence="allow"), GO, T)
    assert result == [["plain"], [1, True]]
    assert ran == ["before", ("ask", 1), "plain", ("ask", 1)]


def test_gathered_children_keep_their_own_results(saver, ran):
    """Children awaited side by side are restored each with its own result."""

    @entrypoint()
    async def inner(x):
        ran.append(x)
        return x * 10

    @entrypoint(checkpointer=saver)
    async def workflow(numbers):
        results = await asyncio.gather(*(inner.ainvoke(n) for n in numbers))
        interrupt("?")
        return results

    async def main():
        await workflow.ainvoke([1, 2, 3], T)
        return await workflow.ainvoke(GO, T)

    assert asyncio.run(main()) == [10, 20, 30]
    assert sorted(ran) == [1, 2, 3]


def test_previous_of_a_child_is_what_it_was_when_the_parent_began(drive, saver):
    """A child entrypoint has no memory of its own between its parent's runs."""

    @entrypoint()
    def inner(x, *, previous=None):
        return [x, previous]

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return inner.invoke(x)

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, 2, T) == [2, None]


def test_graph_node_subgraph_resumes_inside(drive, saver, ran):
    """A compiled graph as a node goes on at the child node that stopped."""

    def ask(state):
        ran.append("ask")
        return {"trail": [*state["trail"], interrupt("?")]}

    inner = graph_of(noting(ran, "a"), ("ask", ask))
    outer = graph_of(noting(ran, "before"), ("inner", inner), saver=saver)
    drive.invoke(outer, {"n": 1}, T)
    assert drive.invoke(outer, GO, T)["trail"] == ["before", "a", True]
    assert ran == ["before", "a", "ask", "ask"]
