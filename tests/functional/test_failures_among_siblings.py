"""What a failure does to the tasks beside it."""

import asyncio
import operator
import threading
from typing import Annotated, TypedDict

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.errors import NodeCancelledError
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.types import interrupt

T = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]


def fan(saver, **nodes):
    """A graph that runs all the nodes in one superstep."""
    builder = StateGraph(State)
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(START, name)
    return builder.compile(checkpointer=saver)


def test_finished_siblings_are_kept(drive, saver):
    """Only what failed runs again."""
    ran, broken = [], [True]

    @task
    def work(i):
        ran.append(i)
        if i == 2 and broken[0]:
            raise ConnectionError("down")
        return i

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [f.result() for f in [work(i) for i in range(4)]]

    with pytest.raises(ConnectionError):
        drive.invoke(workflow, 1, T)
    broken[0] = False
    assert drive.invoke(workflow, None, T) == [0, 1, 2, 3]
    assert {i: ran.count(i) for i in range(4)} == {0: 1, 1: 1, 2: 2, 3: 1}


def test_finished_sibling_nodes_are_kept(drive, saver):
    """A node that finished beside a failed one is not run again, and its write is in order."""
    ran, broken = [], [True]
    a_done = threading.Event()

    def a(state):
        ran.append("a")
        a_done.set()
        return {"log": ["a"]}

    def b(state):
        a_done.wait(10)
        ran.append("b")
        if broken[0]:
            raise ConnectionError("down")
        return {"log": ["b"]}

    def c(state):
        ran.append("c")
        return {"log": ["c"]}

    graph = fan(saver, c=c, b=b, a=a)
    with pytest.raises(ConnectionError):
        drive.invoke(graph, {"log": []}, T)
    broken[0] = False
    assert drive.invoke(graph, None, T) == {"log": ["a", "b", "c"]}
    assert ran.count("a") == 1
    assert ran.count("b") == 2


def test_state_shows_what_failed(drive, saver):
    """`get_state` names the failed task with its error; it alone is next."""

    def good(state):
        return {"log": ["good"]}

    def bad(state):
        raise ValueError("broken")

    graph = fan(saver, good=good, bad=bad)
    with pytest.raises(ValueError, match="broken"):
        drive.invoke(graph, {"log": []}, T)
    state = drive.get_state(graph, T)
    assert "bad" in state.next
    tasks = {t.name: t for t in state.tasks}
    assert "broken" in repr(tasks["bad"].error)
    if "good" not in state.next:
        assert tasks["good"].result == {"log": ["good"]}


def test_error_wins_over_a_pause(drive, saver):
    """With one failing and one asking task the error is raised, and the question is kept."""
    asked = threading.Event()

    def asks(state):
        asked.set()
        return {"log": [interrupt("?")]}

    def fails(state):
        asked.wait(10)
        raise ValueError("broken")

    graph = fan(saver, asks=asks, fails=fails)
    with pytest.raises(ValueError, match="broken"):
        drive.invoke(graph, {"log": []}, T)
    assert set(drive.get_state(graph, T).next) == {"asks", "fails"}


def test_error_has_a_note_with_the_node(drive):
    """The exception names the node it came from."""

    def bad(state):
        raise ValueError("broken")

    with pytest.raises(ValueError) as caught:
        drive.invoke(fan(None, bad=bad), {"log": []})
    assert any("During task with name 'bad' and id" in note for note in caught.value.__notes__)


def test_failing_conditional_edge_leaves_the_node_unfinished(drive, saver):
    """A node whose routing raised is next again, and routes on resume."""
    broken = [True]

    def route(state):
        if broken[0]:
            raise ConnectionError("routing")
        return "b"

    builder = StateGraph(State)
    builder.add_node("a", lambda state: {"log": ["a"]})
    builder.add_node("b", lambda state: {"log": ["b"]})
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", route, ["b"])
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ConnectionError):
        drive.invoke(graph, {"log": []}, T)
    assert drive.get_state(graph, T).next == ("a",)
    broken[0] = False
    assert drive.invoke(graph, None, T) == {"log": ["a", "b"]}


def test_async_siblings_are_cancelled():
    """The first failure cancels async tasks beside it."""
    stopped = []

    async def main():
        started = asyncio.Event()

        async def waits(state):
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append("waits")

        async def fails(state):
            await started.wait()
            raise ValueError("broken")

        graph = fan(InMemorySaver(), waits=waits, fails=fails)
        with pytest.raises(ValueError, match="broken"):
            await graph.ainvoke({"log": []}, T)

    asyncio.run(main())
    assert stopped == ["waits"]


def test_sync_siblings_are_waited_for_and_kept(saver):
    """Threads cannot be killed: the run waits for them and keeps their results."""
    failed, ran = threading.Event(), []

    def slow(state):
        failed.wait(10)
        ran.append("slow")
        return {"log": ["slow"]}

    def fails(state):
        if not failed.is_set():
            failed.set()
            raise ValueError("broken")
        return {"log": ["fails"]}

    graph = fan(saver, slow=slow, fails=fails)
    with pytest.raises(ValueError, match="broken"):
        graph.invoke({"log": []}, T)
    assert ran == ["slow"]
    assert graph.invoke(None, T) == {"log": ["fails", "slow"]}
    assert ran == ["slow"]


def test_cancelled_error_of_the_users_own_fails_the_run():
    """A CancelledError that nobody asked for is a failure with a name."""

    async def odd(state):
        raise asyncio.CancelledError

    graph = fan(None, odd=odd)
    with pytest.raises(NodeCancelledError):
        asyncio.run(graph.ainvoke({"log": []}))


def test_cancelling_the_caller_cancels_the_tasks(saver):
    """A cancelled ainvoke stops its work, and the thread can go on."""
    ran, block = [], [True]

    async def main():
        waiting = asyncio.Event()

        @task
        async def first():
            ran.append("first")
            return 1

        @task
        async def second():
            ran.append("second")
            if block[0]:
                waiting.set()
                await asyncio.Event().wait()
            return 2

        @entrypoint(checkpointer=saver)
        async def workflow(x):
            return await first() + await second()

        call = asyncio.create_task(workflow.ainvoke(1, T))
        await waiting.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        block[0] = False
        return await workflow.ainvoke(None, T)

    assert asyncio.run(main()) == 3
    assert ran == ["first", "second", "second"]


def test_cancel_reaches_nested_work():
    """Cancelling the caller stops a nested workflow's task."""

    async def main():
        started, stopped = asyncio.Event(), asyncio.Event()

        @task
        async def work():
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        @entrypoint()
        async def child(x):
            await work()

        @entrypoint(checkpointer=InMemorySaver())
        async def parent(x):
            return await child.ainvoke(x)

        call = asyncio.create_task(parent.ainvoke(1, T))
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(stopped.wait(), 10)

    asyncio.run(main())


def test_closing_a_stream_stops_the_run():
    """After `aclose` no further task starts."""

    async def main():
        ran = []

        @task
        async def step(i):
            ran.append(i)
            await asyncio.sleep(0)
            return i

        @entrypoint(checkpointer=InMemorySaver())
        async def workflow(x):
            return [await step(i) for i in range(1000)]

        stream = workflow.astream(1, T)
        await anext(stream)
        await stream.aclose()
        at_close = len(ran)
        for _ in range(100):
            await asyncio.sleep(0)
        return len(ran) - at_close

    assert asyncio.run(main()) <= 1
