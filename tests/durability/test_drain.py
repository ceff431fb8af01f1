"""Graceful shutdown: every row of the documented table, sync and async."""

import asyncio
import threading
from typing import TypedDict

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.errors import GraphDrained
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.runtime import RunControl, Runtime
from perdure.types import Command, RetryPolicy, interrupt

T = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    trail: str
    status: str


@pytest.fixture
def ran():
    return []


@pytest.fixture
def control():
    return RunControl()


def chain(ran, saver, acts=None, names="abc", **options):
    """A graph that runs the named nodes in a row; `acts` are called when theirs runs."""
    acts = acts or {}

    def node(name):
        def run(state):
            ran.append(name)
            if name in acts:
                acts[name]()
            return {"trail": state.get("trail", "") + name}

        return run

    builder = StateGraph(State)
    builder.add_sequence([(name, node(name)) for name in names])
    builder.add_edge(START, names[0])
    return builder.compile(checkpointer=saver, **options)


def test_requested_while_a_node_runs(drive, saver, ran, control):
    """The node finishes, its state is saved, then GraphDrained carries the reason."""
    graph = chain(ran, saver, {"a": lambda: control.request_drain("sigterm")})
    with pytest.raises(GraphDrained) as caught:
        drive.invoke(graph, {}, T, control=control)
    assert caught.value.reason == "sigterm"
    assert "sigterm" in str(caught.value)
    assert ran == ["a"]
    state = drive.get_state(graph, T)
    assert state.values == {"trail": "a"}
    assert state.next == ("b",)


def test_invoke_none_resumes_a_drained_run(drive, saver, ran, control):
    """The rest is done, nothing twice."""
    graph = chain(ran, saver, {"a": control.request_drain})
    with pytest.raises(GraphDrained):
        drive.invoke(graph, {}, T, control=control)
    assert drive.invoke(graph, None, T) == {"trail": "abc"}
    assert ran == ["a", "b", "c"]


def test_default_reason_is_shutdown(drive, saver, ran, control):
    """A request without reason has the documented one."""
    graph = chain(ran, saver, {"a": control.request_drain})
    with pytest.raises(GraphDrained) as caught:
        drive.invoke(graph, {}, T, control=control)
    assert caught.value.reason == "shutdown"


def test_requested_from_another_thread(saver, ran, control):
    """Any thread may request it."""

    def from_outside():
        thread = threading.Thread(target=control.request_drain, args=("outside",))
        thread.start()
        thread.join()

    with pytest.raises(GraphDrained) as caught:
        chain(ran, saver, {"a": from_outside}).invoke({}, T, control=control)
    assert caught.value.reason == "outside"


def test_last_reason_wins(control):
    """A second request replaces the reason; nothing clears it."""
    control.request_drain("first")
    control.request_drain("second")
    assert control.drain_requested
    assert control.drain_reason == "second"


def test_fresh_control_has_no_request(control):
    """Nothing is requested until somebody does."""
    assert control.drain_requested is False
    assert control.drain_reason is None


def test_all_siblings_of_the_superstep_finish(drive, saver, ran, control):
    """A drain stops between supersteps, never inside one."""
    builder = StateGraph(State)
    builder.add_node("a", lambda state: ran.append("a") or control.request_drain())
    builder.add_node("b", lambda state: ran.append("b"))
    builder.add_node("c", lambda state: ran.append("c"))
    builder.add_edge(START, "a")
    builder.add_edge(START, "b")
    builder.add_edge(["a", "b"], "c")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(GraphDrained):
        drive.invoke(graph, {"trail": ""}, T, control=control)
    assert sorted(ran) == ["a", "b"]
    assert drive.get_state(graph, T).next == ("c",)


def test_task_calls_of_the_running_node_finish(drive, saver, ran, control):
    """What a running node still calls is done."""

    @task
    def work(i):
        ran.append(i)
        return i

    def node(state):
        control.request_drain()
        return {"trail": str([work(i).result() for i in range(3)])}

    builder = StateGraph(State)
    builder.add_node("a", node)
    builder.add_node("b", lambda state: {})
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(GraphDrained):
        drive.invoke(graph, {}, T, control=control)
    assert ran == [0, 1, 2]


def test_retries_run_to_their_end_first(drive, saver, ran, control):
    """A node that is being retried is retried until it succeeds; then the drain acts."""
    attempts = []

    def flaky(state):
        attempts.append(1)
        control.request_drain()
        if len(attempts) < 3:
            raise ConnectionError("down")
        return {"trail": "a"}

    builder = StateGraph(State)
    builder.add_node("a", flaky, retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    builder.add_node("b", lambda state: {"trail": "ab"})
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(GraphDrained):
        drive.invoke(graph, {}, T, control=control)
    assert len(attempts) == 3
    assert drive.get_state(graph, T).next == ("b",)


def test_retries_that_are_used_up_raise_their_error(drive, saver, control):
    """When the retries fail the error is what the caller gets."""

    def broken(state):
        control.request_drain()
        raise ConnectionError("down")

    builder = StateGraph(State)
    builder.add_node("a", broken, retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    builder.add_edge(START, "a")
    with pytest.raises(ConnectionError):
        drive.invoke(builder.compile(checkpointer=saver), {}, T, control=control)


def test_finishing_in_the_same_step_is_a_normal_return(drive, saver, ran, control):
    """With nothing left to do the run returns; the control tells the difference."""
    graph = chain(ran, saver, {"c": control.request_drain})
    assert drive.invoke(graph, {}, T, control=control) == {"trail": "abc"}
    assert control.drain_requested


def test_requested_before_the_run_starts(drive, saver, ran, control):
    """The input is saved, nothing runs, and invoke(None) runs it all."""
    control.request_drain()
    graph = chain(ran, saver)
    with pytest.raises(GraphDrained):
        drive.invoke(graph, {"trail": "in:"}, T, control=control)
    assert ran == []
    assert drive.invoke(graph, None, T) == {"trail": "in:abc"}


def test_entrypoint_completes(drive, saver, control):
    """A whole entrypoint is one superstep: its body runs to the end."""

    @task
    def work(i):
        return i

    @entrypoint(checkpointer=saver)
    def workflow(x):
        control.request_drain()
        return [work(i).result() for i in range(3)]

    assert drive.invoke(workflow, 1, T, control=control) == [0, 1, 2]


def test_error_wins(drive, saver, ran, control):
    """A failing step raises its error, not the drain."""

    def fail():
        control.request_drain()
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        drive.invoke(chain(ran, saver, {"a": fail}), {}, T, control=control)


def test_pause_wins(drive, saver, control):
    """A question asked in that step is returned; answering goes on."""

    def ask(state):
        control.request_drain()
        return {"trail": interrupt("?")}

    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_node("end", lambda state: {"status": "end"})
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "end")
    graph = builder.compile(checkpointer=saver)
    result = drive.invoke(graph, {}, T, control=control)
    assert [i.value for i in result["__interrupt__"]] == ["?"]
    assert drive.invoke(graph, Command(resume="yes"), T) == {"trail": "yes", "status": "end"}


def test_breakpoint_wins(drive, saver, ran, control):
    """A static breakpoint ahead returns normally."""
    graph = chain(ran, saver, {"a": control.request_drain}, interrupt_before=["b"])
    assert drive.invoke(graph, {}, T, control=control) == {"trail": "a"}
    assert drive.invoke(graph, None, T) == {"trail": "abc"}


def test_subgraph_drains_itself(drive, saver, ran, control):
    """The child saves, the parent keeps its step open, and the child goes on at its next node."""
    child = chain(ran, None, {"x": control.request_drain}, names="xyz")
    builder = StateGraph(State)
    builder.add_node("before", lambda state: ran.append("before"))
    builder.add_node("child", child)
    builder.add_node("after", lambda state: ran.append("after"))
    builder.add_edge(START, "before")
    builder.add_edge("before", "child")
    builder.add_edge("child", "after")
    parent = builder.compile(checkpointer=saver)
    with pytest.raises(GraphDrained):
        drive.invoke(parent, {"trail": ""}, T, control=control)
    assert ran == ["before", "x"]
    assert drive.get_state(parent, T).next == ("child",)
    assert drive.invoke(parent, None, T)["trail"] == "xyz"
    assert ran == ["before", "x", "y", "z", "after"]


def test_drain_of_a_subgraph_is_not_an_error(drive, saver, ran, control):
    """The node that contains it is neither retried nor recorded as failed."""
    child = chain(ran, None, {"x": control.request_drain}, names="xy")
    builder = StateGraph(State)
    builder.add_node(
        "child",
        child,
        retry_policy=RetryPolicy(initial_interval=0, jitter=False, retry_on=BaseException),
    )
    builder.add_edge(START, "child")
    parent = builder.compile(checkpointer=saver)
    with pytest.raises(GraphDrained):
        drive.invoke(parent, {"trail": ""}, T, control=control)
    assert ran == ["x"]
    assert all(t.error is None for t in drive.get_state(parent, T).tasks)


def test_subgraph_requested_on_its_last_step(drive, saver, ran, control):
    """The child returns normally, the parent stops at its own next boundary."""
    child = chain(ran, None, {"y": control.request_drain}, names="xy")
    builder = StateGraph(State)
    builder.add_node("child", child)
    builder.add_node("after", lambda state: ran.append("after"))
    builder.add_edge(START, "child")
    builder.add_edge("child", "after")
    parent = builder.compile(checkpointer=saver)
    with pytest.raises(GraphDrained):
        drive.invoke(parent, {"trail": ""}, T, control=control)
    assert ran == ["x", "y"]
    assert drive.get_state(parent, T).next == ("after",)


def test_child_with_its_own_control(drive, saver, ran):
    """A control given to a child concerns the child; its parent may catch the drain."""
    own = RunControl()
    child = chain(ran, None, {"x": own.request_drain}, names="xy")

    def call(state):
        try:
            child.invoke({"trail": ""}, control=own)
        except GraphDrained:
            return {"status": "child drained"}

    builder = StateGraph(State)
    builder.add_node("call", call)
    builder.add_node("after", lambda state: ran.append("after"))
    builder.add_edge(START, "call")
    builder.add_edge("call", "after")
    result = drive.invoke(builder.compile(checkpointer=saver), {"trail": ""}, T)
    assert result["status"] == "child drained"
    assert ran == ["x", "after"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_drained_run_is_saved_in_every_durability(drive, saver, ran, control, durability):
    """Also under exit the checkpoint is written before GraphDrained is raised."""
    graph = chain(ran, saver, {"a": control.request_drain})
    with pytest.raises(GraphDrained):
        drive.invoke(graph, {}, T, control=control, durability=durability)
    assert drive.invoke(graph, None, T, durability=durability) == {"trail": "abc"}
    assert ran == ["a", "b", "c"]


def test_without_saver_the_drain_is_raised(drive, ran, control):
    """Progress is lost, the caller is told."""
    with pytest.raises(GraphDrained):
        drive.invoke(chain(ran, None, {"a": control.request_drain}), {}, control=control)


def test_used_control_drains_again(drive, saver, ran, control):
    """A request is never cleared: resuming takes a fresh control."""
    graph = chain(ran, saver, {"a": control.request_drain})
    for given in ({}, None):
        with pytest.raises(GraphDrained):
            drive.invoke(graph, given, T, control=control)
    assert ran == ["a"]


def test_stream_delivers_what_was_produced(drive, saver, ran, control):
    """Chunks of the finished step come before the drain is raised."""
    graph = chain(ran, saver, {"a": control.request_drain})
    chunks = []
    with pytest.raises(GraphDrained):
        chunks.extend(graph.stream({}, T, control=control, stream_mode="updates"))
    assert chunks == [{"a": {"trail": "a"}}]


def test_control_of_stream_events(saver, ran, control):
    """v3 runs take a control too."""
    graph = chain(ran, saver, {"a": control.request_drain})
    with pytest.raises(GraphDrained):
        _ = graph.stream_events({}, T, version="v3", control=control).output
    assert ran == ["a"]


def test_nodes_see_the_request(drive, saver, control):
    """`runtime.drain_requested` and `.drain_reason` let a node cut its work short."""

    def node(state, runtime: Runtime):
        before = runtime.drain_requested
        runtime.control.request_drain("spot reclaim")
        return {"status": f"{before} {runtime.drain_requested} {runtime.drain_reason}"}

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    result = drive.invoke(builder.compile(checkpointer=saver), {}, T, control=control)
    assert result == {"status": "False True spot reclaim"}
    assert control.drain_reason == "spot reclaim"


def test_async_node_skips_expensive_work(control):
    """The documents' example: an async node that returns early when asked to end."""

    async def node(state: State, runtime: Runtime) -> State:
        if runtime.drain_requested:
            return {"status": "skipped"}
        return {"status": "worked"}

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=InMemorySaver())

    async def main():
        return await graph.ainvoke({}, T, control=control)

    assert asyncio.run(main()) == {"status": "worked"}


def test_drain_cancels_nothing():
    """A request lets a running async node finish."""

    async def main():
        control, running, may_end = RunControl(), asyncio.Event(), asyncio.Event()

        async def node(state):
            running.set()
            await may_end.wait()
            return {"trail": "finished"}

        builder = StateGraph(State)
        builder.add_node("a", node)
        builder.add_node("b", lambda state: {})
        builder.add_edge(START, "a")
        builder.add_edge("a", "b")
        graph = builder.compile(checkpointer=InMemorySaver())
        call = asyncio.create_task(graph.ainvoke({}, T, control=control))
        await running.wait()
        control.request_drain()
        await asyncio.sleep(0)
        assert not call.done()
        may_end.set()
        with pytest.raises(GraphDrained):
            await call
        return (await graph.aget_state(T)).values

    assert asyncio.run(main()) == {"trail": "finished"}
