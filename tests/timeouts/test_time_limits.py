"""Time limits of nodes, tasks and entrypoints."""

from __future__ import annotations

import asyncio
import operator
from datetime import timedelta
from typing import Annotated, Any, TypedDict

import pytest

from perdure.config import get_message_writer, get_stream_writer
from perdure.engine.limits import Watch
from perdure.errors import NodeError, NodeTimeoutError
from perdure.func import entrypoint, task
from perdure.graph import END, START, StateGraph
from perdure.runtime import Runtime
from perdure.types import Command, RetryPolicy, Send, TimeoutPolicy, interrupt

T = {"configurable": {"thread_id": "t"}}
SHORT = 0.01
LONG = 60.0
AGAIN = RetryPolicy(initial_interval=0, jitter=False)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


async def forever(given=None):
    await asyncio.Event().wait()


def graph(node: Any, **options: Any) -> StateGraph:
    return StateGraph(State).add_node("node", node, **options).add_edge(START, "node")


def run(workflow: Any, given: Any = None, config: Any = None) -> Any:
    return asyncio.run(workflow.ainvoke({"log": []} if given is None else given, config))


# what happens when time is over -----------------------------------------------------------------


@pytest.mark.parametrize("limit", [SHORT, timedelta(seconds=SHORT), TimeoutPolicy(run_timeout=SHORT)])
def test_a_node_that_takes_too_long_fails(limit):
    """The error says which node it was, which limit, and how long it took."""
    with pytest.raises(NodeTimeoutError, match=r"Node 'node' exceeded its run timeout of 0\.010s") as caught:
        run(graph(forever, timeout=limit).compile())
    error = caught.value
    assert (error.node, error.kind, error.timeout, error.run_timeout) == ("node", "run", SHORT, SHORT)
    assert error.elapsed >= SHORT
    assert not isinstance(error, TimeoutError)


def test_a_node_that_shows_no_progress_fails():
    """The idle limit counts from the attempt's start where nothing happens."""
    with pytest.raises(NodeTimeoutError, match="without making progress") as caught:
        run(graph(forever, timeout=TimeoutPolicy(idle_timeout=SHORT)).compile())
    assert (caught.value.kind, caught.value.idle_timeout) == ("idle", SHORT)


def test_within_the_limit_nothing_changes():
    """A node that is quick enough gives its writes."""

    async def node(state):
        return {"log": ["done"]}

    assert run(graph(node, timeout=LONG).compile()) == {"log": ["done"]}


def test_the_limit_holds_for_each_attempt():
    """A retry has all the time again, and the default policy takes a time-out for worth one."""
    attempts = []

    async def node(state, runtime: Runtime):
        attempts.append(runtime.execution_info.node_attempt)
        if len(attempts) == 1:
            await forever()
        return {"log": ["done"]}

    assert run(graph(node, timeout=0.05, retry_policy=AGAIN).compile()) == {"log": ["done"]}
    assert attempts == [1, 2]


def test_edges_count():
    """A conditional edge that takes too long is over the node's limit."""

    async def node(state):
        return {"log": ["done"]}

    async def choose(state):
        await forever()

    builder = graph(node, timeout=SHORT).add_conditional_edges("node", choose, [END])
    with pytest.raises(NodeTimeoutError):
        run(builder.compile())


def test_an_error_handler_takes_a_time_out():
    """It is a failure of the node like others."""

    async def handler(state, error: NodeError):
        return {"log": [type(error.error).__name__]}

    workflow = graph(forever, timeout=SHORT, error_handler=handler).compile()
    assert run(workflow) == {"log": ["NodeTimeoutError"]}


def test_a_timeout_of_the_users_own_passes():
    """A TimeoutError that the code raised is left as it is."""

    async def node(state):
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        run(graph(node, timeout=LONG).compile())


def test_a_packet_has_a_limit_of_its_own():
    """`Send(timeout=)` counts instead of the node's."""
    builder = StateGraph(State).add_node("node", forever, timeout=LONG)
    builder.add_conditional_edges(START, lambda state: [Send("node", {}, timeout=SHORT)], ["node"])
    with pytest.raises(NodeTimeoutError):
        run(builder.compile())


def test_a_packets_limit_is_kept_over_a_resume(saver):
    """It is stored with the packet."""
    ran = []

    async def node(state):
        ran.append(1)
        if len(ran) == 1:
            raise ValueError("once")
        await forever()

    builder = StateGraph(State).add_node("node", node)
    builder.add_conditional_edges(START, lambda state: [Send("node", {}, timeout=0.05)], ["node"])
    workflow = builder.compile(checkpointer=saver)
    with pytest.raises(ValueError, match="once"):
        run(workflow, config=T)
    with pytest.raises(NodeTimeoutError):
        asyncio.run(workflow.ainvoke(None, T))


def test_a_subgraph_is_stopped_and_goes_on():
    """A node that is a graph is cut off as a whole."""
    workflow = graph(graph(forever).compile(), timeout=SHORT).compile()
    with pytest.raises(NodeTimeoutError, match="Node 'node'"):
        run(workflow)


def test_an_entrypoint_may_be_limited():
    """`entrypoint(timeout=)` limits the function."""

    @entrypoint(timeout=SHORT)
    async def flow(x):
        await forever()

    with pytest.raises(NodeTimeoutError, match="Node 'flow'"):
        run(flow, 1)


def test_a_node_cancelled_from_outside_is_cancelled():
    """Cancelling the run is no time-out, and the node's code hears of it."""
    heard, started = [], asyncio.Event()

    async def node(state):
        started.set()
        try:
            await forever()
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise

    async def main():
        job = asyncio.ensure_future(graph(node, timeout=LONG).compile().ainvoke({"log": []}))
        await started.wait()
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job

    asyncio.run(main())
    assert heard == ["cancelled"]


# tasks ------------------------------------------------------------------------------------------


def test_the_time_out_of_a_task_is_its_outcome(saver):
    """It is recorded: the caller caught it, and on resume it is given again without a run."""
    ran = []

    @task(timeout=SHORT)
    async def slow(x):
        ran.append(x)
        await forever()

    @entrypoint(checkpointer=saver)
    async def flow(x):
        try:
            await slow(x)
        except NodeTimeoutError as error:
            return interrupt("go on?"), error.node, error.kind

    run(flow, 1, T)
    result = asyncio.run(flow.ainvoke(Command(resume=True), T))
    assert (result, ran) == ((True, "slow", "run"), [1])


def test_options_keep_the_limit():
    """`task.options(key=...)` is the same task, its limit included."""

    @task(timeout=SHORT)
    async def slow(x):
        await forever()

    @entrypoint()
    async def flow(x):
        return await slow.options(key="k")(x)

    with pytest.raises(NodeTimeoutError):
        run(flow, 1)


def test_a_task_called_by_sync_code_may_be_limited():
    """A sync task that calls an async one gets its time-out."""

    @task(timeout=SHORT)
    async def slow(x):
        await forever()

    @task
    def outer(x):
        with pytest.raises(NodeTimeoutError):
            slow(x).result()
        return "caught"

    @entrypoint()
    async def flow(x):
        return await outer(x)

    assert run(flow, 1) == "caught"


# what a dead attempt still does -------------------------------------------------------------------


def test_a_dead_attempt_cannot_call():
    """Its calls raise CancelledError and start nothing, whether or not another attempt runs."""
    ran, raised = [], []

    @task
    async def late(x):
        ran.append(x)

    async def node(state, runtime: Runtime):
        if runtime.execution_info.node_attempt == 2:
            await asyncio.sleep(0)
            return {"log": ["done"]}
        try:
            await forever()
        finally:
            try:
                await late(1)
            except asyncio.CancelledError as error:
                raised.append(type(error))

    assert run(graph(node, timeout=0.05, retry_policy=AGAIN).compile()) == {"log": ["done"]}
    assert (ran, raised) == ([], [asyncio.CancelledError])


def test_a_dead_attempt_cannot_stream():
    """What it writes to the custom stream after its time is dropped."""

    async def node(state):
        write = get_stream_writer()
        write("in time")
        try:
            await forever()
        finally:
            write("late")

    seen = []

    async def main():
        events = graph(node, timeout=SHORT).compile().astream({"log": []}, stream_mode="custom")
        seen.append(await anext(events))
        with pytest.raises(NodeTimeoutError):
            seen.append(await anext(events))

    asyncio.run(main())
    assert seen == ["in time"]


def test_a_time_out_cannot_be_swallowed():
    """Code that goes on after it was cancelled has failed all the same."""

    async def node(state):
        try:
            await forever()
        except asyncio.CancelledError:
            return {"log": ["late"]}

    with pytest.raises(NodeTimeoutError):
        run(graph(node, timeout=SHORT).compile())


def test_code_that_will_not_end_is_left_behind(monkeypatch):
    """The run goes on without it after a moment of grace."""
    monkeypatch.setattr("perdure.engine.carry_async._GRACE", SHORT)
    release = []

    async def node(state):
        while not release:
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                continue

    async def main():
        with pytest.raises(NodeTimeoutError):
            await graph(node, timeout=SHORT).compile().ainvoke({"log": []})
        release.append(True)

    asyncio.run(main())


def test_calls_of_a_dead_attempt_are_stopped(saver):
    """A call that was under way is cancelled, which is no outcome: the next attempt makes it again."""
    ran = []

    @task
    async def inner(x):
        ran.append(x)
        if len(ran) == 1:
            await forever()
        return x

    async def node(state):
        call = inner(1)
        return {"log": [await asyncio.shield(call)]}

    workflow = graph(node, timeout=0.05, retry_policy=AGAIN).compile(checkpointer=saver)
    assert (run(workflow, config=T), ran) == ({"log": [1]}, [1, 1])


# progress -----------------------------------------------------------------------------------------


@pytest.fixture
def progress(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What watches were told."""
    told: list[str] = []
    for name in ("progress", "beat"):
        plain = getattr(Watch, name)

        def noted(self: Watch, name: str = name, plain: Any = plain) -> None:
            told.append(name)
            plain(self)

        monkeypatch.setattr(Watch, name, noted)
    return told


IDLE = TimeoutPolicy(idle_timeout=LONG)


def test_a_heartbeat_is_told(progress):
    """`runtime.heartbeat()` says that the node makes progress."""

    async def node(state, runtime: Runtime):
        runtime.heartbeat()

    run(graph(node, timeout=IDLE).compile())
    assert progress == ["beat"]


def test_a_stream_chunk_is_progress(progress):
    """What is written to the custom stream counts, listeners or not."""

    async def node(state):
        get_stream_writer()("chunk")

    run(graph(node, timeout=IDLE).compile())
    assert progress == ["progress"]


def test_a_piece_of_a_message_is_progress(progress):
    """What a message writer is given counts, listeners or not."""

    async def node(state):
        with get_message_writer() as message:
            for word in ("one", "two"):
                message.text(word)
                assert progress
                progress.clear()

    run(graph(node, timeout=IDLE).compile())


def test_a_call_is_progress_when_it_begins_and_when_it_ends(progress):
    """Both count for the caller."""

    @task
    async def inner(x):
        return x

    async def node(state):
        await inner(1)

    run(graph(node, timeout=IDLE).compile())
    assert progress == ["progress", "progress"]


def test_code_below_may_beat_for_the_code_above(progress):
    """A heartbeat in a task counts for the node that called it."""

    @task
    async def inner(x, runtime: Runtime):
        progress.clear()
        runtime.heartbeat()
        assert progress == ["beat"]

    async def node(state):
        await inner(1)

    run(graph(node, timeout=IDLE).compile())


def test_a_step_of_a_subgraph_is_progress(progress):
    """A node of a nested run that ends counts for the node around it."""

    async def inner(state):
        return {"log": ["inner"]}

    run(graph(graph(inner).compile(), timeout=IDLE).compile())
    assert set(progress) == {"progress"}


class Clock:
    """A clock that stands until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_progress_does_not_move_the_run_limit():
    """The run limit counts from the start, the idle limit from the last sign of progress."""
    clock = Clock()
    watch = Watch(TimeoutPolicy(run_timeout=10.0, idle_timeout=4.0), clock)
    clock.now += 3
    assert watch.left == 1.0
    watch.progress()
    assert watch.left == 4.0
    clock.now += 4
    watch.beat()
    assert watch.left == 3.0


@pytest.mark.parametrize(("passed", "kind"), [(5.0, "idle"), (10.0, "run")])
def test_the_error_names_the_limit_that_was_reached(passed, kind):
    """Where both are, the run limit is named."""
    clock = Clock()
    watch = Watch(TimeoutPolicy(run_timeout=10.0, idle_timeout=4.0), clock)
    clock.now += passed
    assert (watch.error("n").kind, watch.dead) == (kind, True)


def test_where_only_heartbeats_count_nothing_else_does():
    """`refresh_on="heartbeat"` leaves chunks and calls out."""
    clock = Clock()
    watch = Watch(TimeoutPolicy(idle_timeout=4.0, refresh_on="heartbeat"), clock)
    clock.now += 3
    watch.progress()
    assert watch.left == 1.0
    watch.beat()
    assert watch.left == 4.0


# what is refused ----------------------------------------------------------------------------------


def test_a_sync_task_has_no_limit():
    """It could not be stopped, so the decorator refuses."""
    with pytest.raises(ValueError, match=r"only supported for async nodes.*task 'work' is a sync function"):

        @task(timeout=1)
        def work(x):
            return x


def test_a_sync_entrypoint_has_no_limit():
    """The same for entrypoints."""
    with pytest.raises(ValueError, match=r"only supported for async nodes.*'flow' is a sync function"):

        @entrypoint(timeout=1)
        def flow(x):
            return x


@pytest.mark.parametrize("make", [task, entrypoint])
def test_a_limit_is_greater_than_zero(make):
    """Zero and less are refused."""
    with pytest.raises(ValueError, match="greater than 0"):
        make(timeout=0)


def test_a_sync_run_refuses_a_limit():
    """`invoke` could not stop the node."""
    with pytest.raises(ValueError, match="only supported for async nodes"):
        graph(forever, timeout=1).compile().invoke({"log": []})


def test_a_sync_run_refuses_the_limit_of_a_subgraph():
    """A graph can be run both ways, but only a coroutine can be stopped."""

    def inner(state):
        return {"log": ["inner"]}

    with pytest.raises(ValueError, match="only supported for async nodes"):
        graph(graph(inner).compile(), timeout=1).compile().invoke({"log": []})


def test_a_packets_limit_is_refused_for_a_sync_node(drive):
    """A `Send(timeout=)` to a sync node fails when it is reached, in either kind of run."""
    builder = StateGraph(State).add_node("node", lambda state: None)
    builder.add_conditional_edges(START, lambda state: [Send("node", {}, timeout=1)], ["node"])
    with pytest.raises(ValueError, match="only supported for async nodes"):
        drive.invoke(builder.compile(), {"log": []})
