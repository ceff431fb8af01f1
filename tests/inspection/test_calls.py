"""What can be seen of the calls of an open task."""

from __future__ import annotations

import time
from typing import Any

import pytest

from inspection.graphs import asks, chain
from perdure import Command, entrypoint, interrupt, task


@task
def double(n: int) -> int:
    return 2 * n


@task
def fails(n: int) -> int:
    raise ValueError(n)


@task
def ask(n: int) -> Any:
    return interrupt(n)


def calls(drive: Any, workflow: Any, config: Any) -> Any:
    return drive.get_state(workflow, config).tasks[0].calls


def test_finished_failed_and_paused_calls_are_told_apart(drive: Any, saver: Any, thread: Any) -> None:
    """Each call of a paused entrypoint shows its name, its state and its outcome."""

    @entrypoint(checkpointer=saver)
    def flow(n: int) -> Any:
        double(n).result()
        with pytest.raises(ValueError, match="1"):
            fails(n).result()
        return ask(n).result()

    drive.invoke(flow, 1, thread())
    shown = calls(drive, flow, thread())
    assert [(c.name, c.state, c.result, c.error) for c in shown] == [
        ("double", "finished", 2, None),
        ("fails", "failed", None, "ValueError(1)"),
        ("ask", "paused", None, None),
    ]


def test_calls_carry_their_times(drive: Any, saver: Any, thread: Any) -> None:
    """Start and end, in seconds since the epoch."""

    @entrypoint(checkpointer=saver)
    def flow(n: int) -> Any:
        double(n).result()
        return interrupt("go on?")

    before = time.time()
    drive.invoke(flow, 1, thread())
    (call,) = calls(drive, flow, thread())
    assert before <= call.started <= call.ended <= time.time()


def test_calls_of_calls_are_shown_too(drive: Any, saver: Any, thread: Any) -> None:
    """In the order in which they started."""

    @task
    def outer(n: int) -> int:
        return double(n).result() + double(n + 1).result()

    @entrypoint(checkpointer=saver)
    def flow(n: int) -> Any:
        outer(n).result()
        return interrupt("go on?")

    drive.invoke(flow, 1, thread())
    shown = calls(drive, flow, thread())
    assert [(c.name, c.result) for c in shown] == [("outer", 6), ("double", 2), ("double", 4)]


def test_an_answered_call_is_finished(drive: Any, saver: Any, thread: Any) -> None:
    """A call that asked, was answered and returned shows its result."""

    @entrypoint(checkpointer=saver)
    def flow(n: int) -> Any:
        return ask(n).result(), interrupt("more?")

    drive.invoke(flow, 1, thread())
    drive.invoke(flow, Command(resume="yes"), thread())
    (call,) = calls(drive, flow, thread())
    assert (call.state, call.result) == ("finished", "yes")


def test_a_failed_run_shows_what_is_done(drive: Any, saver: Any, thread: Any) -> None:
    """After an error one sees which calls will not be made again."""

    @entrypoint(checkpointer=saver)
    def flow(n: int) -> Any:
        return double(n).result() + fails(n).result()

    with pytest.raises(ValueError, match="1"):
        drive.invoke(flow, 1, thread())
    state = drive.get_state(flow, thread())
    assert state.tasks[0].error == "ValueError(1)"
    assert [(c.name, c.state) for c in state.tasks[0].calls] == [("double", "finished"), ("fails", "failed")]


def test_calls_of_a_node_are_shown(drive: Any, saver: Any, thread: Any) -> None:
    """Tasks called in a node belong to the node's task."""

    def node(state: Any) -> Any:
        double(4).result()
        return asks(state)

    graph = chain("a", "n", n=node).compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    assert [(c.name, c.result) for c in calls(drive, graph, thread())] == [("double", 8)]


def test_a_nested_run_is_a_call(drive: Any, saver: Any, thread: Any) -> None:
    """Finished and paused runs of workflows called in a body are told apart; the open one has not ended."""
    finishes = chain("c").compile(name="finishes")
    pauses = chain("c", c=asks).compile(name="pauses")

    @entrypoint(checkpointer=saver)
    def flow(n: int) -> Any:
        finishes.invoke({"words": ["in"]})
        return pauses.invoke({"words": []})

    @entrypoint(checkpointer=saver)
    async def aflow(n: int) -> Any:
        await finishes.ainvoke({"words": ["in"]})
        return await pauses.ainvoke({"words": []})

    workflow = aflow if drive.is_async else flow
    drive.invoke(workflow, 1, thread())
    shown = calls(drive, workflow, thread())
    assert [(c.name, c.state, c.result) for c in shown] == [
        ("finishes", "finished", {"words": ["in", "c"]}),
        ("pauses", "paused", None),
    ]
    assert shown[0].ended is not None
    assert shown[1].ended is None


def test_a_subgraph_node_is_no_call_of_itself(drive: Any, saver: Any, thread: Any) -> None:
    """A node that is a graph shows it as its state, not among its calls."""
    graph = chain("sub", sub=chain("c", c=asks).compile()).compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    assert calls(drive, graph, thread()) == ()


def test_history_shows_the_calls_of_finished_runs(drive: Any, saver: Any, thread: Any) -> None:
    """The entry of a run's input keeps what was called in it."""

    @entrypoint(checkpointer=saver)
    def flow(n: int) -> int:
        return double(n).result()

    drive.invoke(flow, 3, thread())
    _, started = drive.history(flow, thread())
    assert [(c.name, c.result) for c in started.tasks[0].calls] == [("double", 6)]
