"""Graphs inside a run: their lifecycle, and the handles by which they are read."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.errors import GraphDrained, GraphInterrupt
from perdure.func import entrypoint, task
from perdure.stream import LifecycleTransformer, SubgraphTransformer, UpdatesTransformer
from perdure.stream.router import EventRouter
from perdure.types import Command, interrupt
from stream.events import result, start

T = {"configurable": {"thread_id": "t"}}
GIVEN = {"a": ["0"]}


def leaf(chain, b=1, **kw):
    return chain(("leaf", lambda s: {"b": b}), **kw)


# lifecycle -----------------------------------------------------------------------------------


def test_lifecycle_of_a_graph_inside(runs, chain):
    """A graph that a node runs starts and completes, under the node's name and task."""
    run = runs.open(chain(("sub", leaf(chain))), GIVEN)
    started, completed = list(run.lifecycle)
    name, _, task_id = started["namespace"][0].partition(":")
    assert (name, started["graph_name"], started["trigger_call_id"]) == ("sub", "sub", task_id)
    assert [started["event"], completed["event"]] == ["started", "completed"]
    assert completed["namespace"] == started["namespace"]


def test_lifecycle_tells_of_every_depth(runs, chain):
    """Graphs in graphs are told of as well; the root is not."""
    run = runs.open(chain(("outer", chain(("inner", leaf(chain))))), GIVEN)
    told = [(p["event"], p["graph_name"], len(p["namespace"])) for p in run.lifecycle]
    assert told == [
        ("started", "outer", 1), ("started", "inner", 2),
        ("completed", "inner", 2), ("completed", "outer", 1),
    ]  # fmt: skip


def test_lifecycle_of_a_failure(runs, chain):
    """A graph that raises has failed, with the text of its error."""

    def fail(state):
        raise ValueError("boom")

    reader = iter(runs.open(chain(("sub", chain(("bad", fail)))), GIVEN).lifecycle)
    assert next(reader)["event"] == "started"
    failed = next(reader)
    assert (failed["event"], failed["error"]) == ("failed", "boom")


def test_a_failure_that_the_node_catches_is_the_graphs(runs, chain):
    """The graph failed, although the node that called it went on."""

    def fail(state):
        raise ValueError("boom")

    bad = chain(("bad", fail))

    def node(state):
        try:
            bad.invoke(GIVEN)
        except ValueError:
            return {"b": 1}

    run = runs.open(chain(("node", node)), GIVEN)
    assert [p["event"] for p in run.lifecycle] == ["started", "failed"]
    assert run.output == {"a": ["0"], "b": 1}


def test_lifecycle_of_a_pause(runs, chain):
    """A graph that asks is interrupted."""
    run = runs.open(chain(("sub", chain(("ask", lambda s: interrupt("?")))), saver=InMemorySaver()), GIVEN, T)
    assert [p["event"] for p in run.lifecycle] == ["started", "interrupted"]


# handles -------------------------------------------------------------------------------------


def test_handles_read_one_after_the_other(runs, chain):
    """Two graphs in a row are two handles, each read whole in the body of the loop."""
    run = runs.open(chain(("one", leaf(chain, 1)), ("two", leaf(chain, 2))), GIVEN)
    seen = []
    for handle in run.subgraphs:
        assert handle.status == "started"
        seen.append((handle.graph_name, list(handle.values)[-1]["b"], handle.output["b"], handle.status))
    assert seen == [("one", 1, 1, "completed"), ("two", 2, 2, "completed")]


def test_a_handle_has_its_first_values(runs, chain):
    """The state with which the graph began is among its values."""
    run = runs.open(chain(("sub", leaf(chain))), GIVEN)
    assert [list(handle.values) for handle in run.subgraphs] == [[GIVEN, {"a": ["0"], "b": 1}]]


def test_reading_a_handle_stops_at_its_end(runs, chain):
    """Asking for a graph's output does not run what comes after it."""
    ran = []

    def late(state):
        ran.append("late")

    run = runs.open(chain(("sub", leaf(chain)), ("late", late)), GIVEN)
    handle = next(iter(run.subgraphs))
    assert handle.output == {"a": ["0"], "b": 1}
    assert ran == []
    assert run.output == {"a": ["0", "0"], "b": 1}


def test_handles_of_deeper_graphs_are_on_their_parents(runs, chain):
    """The root shows the graphs that its own nodes run, and those show theirs."""
    run = runs.open(chain(("outer", chain(("inner", leaf(chain))))), GIVEN)
    tree = [(handle.graph_name, [inner.graph_name for inner in handle.subgraphs]) for handle in run.subgraphs]
    assert tree == [("outer", ["inner"])]


def test_a_handle_tells_the_lifecycle_below_it(runs, chain):
    """Not its own."""
    run = runs.open(chain(("outer", chain(("inner", leaf(chain))))), GIVEN)
    told = [[p["graph_name"] for p in handle.lifecycle] for handle in run.subgraphs]
    assert told == [["inner", "inner"]]


def test_a_handle_has_what_the_run_was_asked_for(runs, chain):
    """Opted-in projections and raw events are on the handles, too."""
    run = runs.open(chain(("sub", leaf(chain))), GIVEN, transformers=[UpdatesTransformer])
    handle = next(iter(run.subgraphs))
    events, updates = iter(handle), iter(handle.updates)
    _ = run.output
    assert list(updates) == [{"leaf": {"b": 1}}]
    assert {event["method"] for event in events} == {"values", "updates"}


def test_events_are_shared_between_run_and_handle(chain):
    """A handle's events are the root's own objects; it assigns no numbers."""
    run = chain(("sub", leaf(chain))).stream_events(GIVEN, version="v3")
    handle = next(iter(run.subgraphs))
    own, roots = iter(handle), iter(run)
    _ = run.output
    numbered = [event for event in roots if event["params"]["namespace"]]
    assert list(own)[-1] is numbered[-1]


def test_a_handle_that_is_not_read_keeps_nothing(chain):
    """Channels of a handle hold nothing once its reader has had his turn."""
    run = chain(("sub", leaf(chain))).stream_events(GIVEN, version="v3")
    handle = next(iter(run.subgraphs))
    _ = run.output
    assert list(handle.values) == []
    assert not handle._router.events.items


def test_a_failed_graph_raises_from_its_handle(runs, chain):
    """The handle raises a RuntimeError with the graph's error as its cause; the run raises that."""
    error = ValueError("boom")

    def fail(state):
        raise error

    run = runs.open(chain(("sub", chain(("bad", fail)))), GIVEN)
    handle = next(iter(run.subgraphs))
    with pytest.raises(RuntimeError, match="boom") as raised:
        _ = handle.output
    assert raised.value.__cause__ is error
    assert (handle.status, handle.error) == ("failed", "boom")
    with pytest.raises(ValueError, match="boom") as raised:
        _ = run.output
    assert raised.value is error


def test_a_question_shows_on_the_handle(runs, chain):
    """The handle is interrupted, with the question that the run shows."""
    run = runs.open(chain(("sub", chain(("ask", lambda s: interrupt("?")))), saver=InMemorySaver()), GIVEN, T)
    handle = next(iter(run.subgraphs))
    assert (handle.interrupted, handle.status) == (True, "interrupted")
    assert [q.id for q in handle.interrupts] == [q.id for q in run.interrupts]


def test_a_resumed_graph_has_a_handle(runs, chain):
    """The run that goes on shows the graph that goes on in it."""
    workflow = chain(("sub", chain(("ask", lambda s: {"b": interrupt("?")}))), saver=InMemorySaver())
    _ = runs.open(workflow, GIVEN, T).output
    run = runs.open(workflow, Command(resume=5), T)
    assert [(h.graph_name, h.output, h.status) for h in run.subgraphs] == [
        ("sub", {"a": ["0"], "b": 5}, "completed")
    ]


def test_aborting_a_handle_leaves_the_graph_alone(runs, chain):
    """Its readers end; the run, and the graphs after it, go on."""
    run = runs.open(chain(("one", leaf(chain, 1)), ("two", leaf(chain, 2))), GIVEN)
    seen = []
    for handle in run.subgraphs:
        if handle.graph_name == "one":
            values = iter(handle.values)
            handle.abort()
            assert len(list(values)) == 1
        seen.append(handle.graph_name)
    assert seen == ["one", "two"]
    assert run.output["b"] == 2


def test_aborting_the_run_completes_its_handles(runs, chain):
    """Readers of a handle end without an error."""
    run = runs.open(chain(("sub", chain(("x", lambda s: None), ("y", lambda s: None)))), GIVEN)
    handle = next(iter(run.subgraphs))
    values = iter(handle.values)
    run.abort()
    assert len(list(values)) == 1
    assert handle.status == "completed"


# entrypoints ---------------------------------------------------------------------------------


def test_each_call_of_an_entrypoint_is_a_handle(runs, chain):
    """Graphs called in a body, again, or in a task, are handles, named after the graph."""
    first, second = leaf(chain, 1, name="first"), leaf(chain, 2, name="second")

    @task
    def work():
        return first.invoke({"a": []})

    @entrypoint()
    def flow(x):
        first.invoke({"a": []})
        second.invoke({"a": []})
        work().result()

    run = runs.open(flow, 1)
    seen = [(handle.graph_name, handle.output["b"], handle.status) for handle in run.subgraphs]
    assert seen == [("first", 1, "completed"), ("second", 2, "completed"), ("first", 1, "completed")]


def test_lifecycle_ends_with_the_invocation(runs, chain):
    """A graph called in a body has completed before the next one starts."""
    inner = leaf(chain, name="inner")

    @entrypoint()
    def flow(x):
        inner.invoke({"a": []})
        inner.invoke({"a": []})

    assert [p["event"] for p in runs.open(flow, 1).lifecycle] == ["started", "completed"] * 2


def test_tasks_are_no_graphs(runs):
    """Calls of tasks make no lifecycle and no handles."""

    @task
    def work():
        return 1

    @entrypoint()
    def flow(x):
        return work().result()

    run = runs.open(flow, 1)
    lifecycle, subgraphs = iter(run.lifecycle), iter(run.subgraphs)
    _ = run.output
    assert (list(lifecycle), list(subgraphs)) == ([], [])


# several consumers ---------------------------------------------------------------------------


def test_async_readers_of_a_handle_may_be_tasks_of_their_own(chain):
    """Values, events and lifecycle of each handle are whole, read by gather beside the run's own."""
    workflow = chain(("one", chain(("deep", leaf(chain)))), ("two", leaf(chain, 2)))

    async def everything(items):
        return [item async for item in items]

    async def main():
        run = await workflow.astream_events(GIVEN, version="v3")

        async def handles():
            return [
                await asyncio.gather(everything(h.values), everything(h), everything(h.lifecycle), h.output())
                async for h in run.subgraphs
            ]

        readers = everything(run.values), handles(), everything(run.lifecycle), run.output()
        return await asyncio.gather(*readers)

    values, handles, lifecycle, output = asyncio.run(main())
    assert len(values) == 3
    assert values[-1] == output
    assert [(len(h[0]), len(h[2]), h[0][-1] == h[3]) for h in handles] == [(2, 2, True), (2, 0, True)]
    assert len(lifecycle) == 6


# the rules, fed by hand ----------------------------------------------------------------------


def lifecycle_of(*events, end=None, scope=()):
    """What the lifecycle of a graph at `scope` tells of some events."""
    transformer = LifecycleTransformer(scope)
    router = EventRouter([transformer])
    reader = iter(transformer.channel)
    for item in events:
        router.push(item)
    if end is None:
        router.close()
    else:
        router.fail(end)
    told = []
    with contextlib.suppress(*([type(end)] if end else [])):
        told.extend(reader)
    return told


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ({}, "completed"),
        ({"error": ValueError("x")}, "failed"),
        ({"interrupts": [{"value": 1}]}, "interrupted"),
        ({"interrupts": [{"value": 1}], "error": ValueError("x")}, "interrupted"),
    ],
)
def test_the_task_around_a_graph_ends_it(outcome, status):
    """How a graph ended is how the task ended that ran it; a question wins over an error."""
    told = lifecycle_of(start((), "n", "1"), start(("n:1",), "i", "2"), result((), "n", "1", **outcome))
    assert [p["event"] for p in told] == ["started", status]


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (None, "completed"),
        (GraphDrained("enough"), "drained"),
        (GraphInterrupt(()), "interrupted"),
        (ValueError("x"), "failed"),
    ],
)
def test_the_end_of_the_run_ends_what_is_open(end, status):
    """Graphs that have not ended end with the run."""
    told = lifecycle_of(start(("n:1",), "i", "2"), end=end)
    assert [p["event"] for p in told] == ["started", status]


def test_a_segment_without_an_id_starts_nothing():
    """There is no task to tell its end."""
    assert lifecycle_of(start(("n",), "i", "2")) == []


def test_a_lifecycle_tells_of_what_is_below_its_scope():
    """Of nothing at its level, or beside it."""
    told = lifecycle_of(
        start(("n:1",), "i", "2"), start(("n:1", "i:2"), "j", "3"), start(("m:4",), "k", "5"), scope=("n:1",)
    )
    assert [p["namespace"] for p in told] == [["n:1", "i:2"]] * 2


@pytest.mark.parametrize("given", [{"tool_call": {"id": "call-1"}}, [{"id": "call-1", "name": "f"}]])
def test_an_agent_started_by_a_tool_call_names_it(given):
    """An agent's graph has the agent's name, and the tool call that caused it."""
    metadata = {"lc_agent_name": "helper"}
    calling = start((), "tools", "1", input=given)
    told = lifecycle_of(calling, start(("tools:1",), "i", "2", metadata=metadata))
    assert told[0]["graph_name"] == "helper"
    assert told[0]["cause"] == {"type": "toolCall", "tool_call_id": "call-1"}
    assert "cause" not in told[1]


def test_handles_are_for_direct_children_alone():
    """A grandchild that shows up first makes no handle at the root."""
    transformer = SubgraphTransformer()
    router = EventRouter(factories=[lambda scope: transformer if not scope else SubgraphTransformer(scope)])
    handles = iter(transformer.channel)
    router.push(start(("a:1", "b:2"), "x", "3"))
    router.push(start(("a:1",), "b", "2"))
    router.close()
    assert [handle.path for handle in handles] == [("a:1",)]


def test_children_need_factories():
    """Transformers that were made already cannot be made for a child."""
    with pytest.raises(RuntimeError, match="factories"):
        EventRouter([LifecycleTransformer()]).child(("a:1",))
