"""What each mode tells, and in which order."""

import operator
import threading
from datetime import datetime, timedelta
from typing import Annotated, TypedDict

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.config import get_stream_writer
from perdure.errors import GraphDrained, GraphRecursionError
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.runtime import RunControl, Runtime
from perdure.types import Command, Send, StreamWriter, interrupt

T = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    a: Annotated[list, operator.add]
    b: int


def chain(*nodes, saver=None, **kw):
    """A graph of (name, function) one after the other."""
    graph = StateGraph(State)
    before = START
    for name, function in nodes:
        graph.add_node(name, function)
        graph.add_edge(before, name)
        before = name
    return graph.compile(checkpointer=saver, **kw)


def said(mode, items):
    """The payloads of one mode among (mode, payload) pairs."""
    return [payload for kind, payload in items if kind == mode]


# values, updates -----------------------------------------------------------------------------


def test_values_follow_changes_only(drive):
    """The state comes after the input and after each step that changed a shown key."""
    graph = chain(("one", lambda s: {"b": 1}), ("idle", lambda s: None), ("two", lambda s: {"b": 2}))
    items = drive.stream(graph, {"a": []}, stream_mode="values")
    assert items == [{"a": []}, {"a": [], "b": 1}, {"a": [], "b": 2}]


def test_a_node_that_writes_nothing_updates_none(drive):
    """A node that returned None shows as None."""
    assert drive.stream(chain(("idle", lambda s: None)), {"a": []}) == [{"idle": None}]


def test_each_send_updates_for_itself(drive):
    """Two packets to one node give two items."""
    graph = StateGraph(State)
    graph.add_node("x", lambda given: {"a": [given]})
    graph.add_conditional_edges(START, lambda s: [Send("x", 1), Send("x", 2)])
    items = drive.stream(graph.compile(), {"a": []})
    assert sorted(item["x"]["a"] for item in items) == [[1], [2]]


def test_results_kept_from_before_are_marked(drive):
    """A sibling that finished before the pause shows again on resume, marked as cached."""
    graph = StateGraph(State)
    graph.add_node("ask", lambda s: {"a": [interrupt("?")]})
    graph.add_node("fine", lambda s: {"b": 1})
    graph.add_edge(START, "ask")
    graph.add_edge(START, "fine")
    flow = graph.compile(checkpointer=InMemorySaver())
    drive.stream(flow, {"a": []}, T)
    assert drive.stream(flow, Command(resume="r"), T) == [
        {"fine": {"b": 1}, "__metadata__": {"cached": True}},
        {"ask": {"a": ["r"]}},
    ]


# pauses --------------------------------------------------------------------------------------


def asking(**kw):
    return chain(("ask", lambda s: {"a": [interrupt("?")]}), ("last", lambda s: {"b": 1}), **kw)


def test_a_pause_is_told_in_every_mode(drive):
    """A question comes as an update, with the values, and in the task's result, in that order."""
    items = drive.stream(
        asking(saver=InMemorySaver()), {"a": []}, T, stream_mode=["values", "updates", "tasks"]
    )
    modes = [mode for mode, _ in items]
    assert modes == ["values", "tasks", "updates", "values", "tasks"]
    (question,) = items[2][1]["__interrupt__"]
    assert items[3][1] == {"a": [], "__interrupt__": (question,)}
    result = items[4][1]
    assert (result["error"], result["result"]) == (None, {})
    assert result["interrupts"] == [{"value": "?", "id": question.id, "response_schema": None}]


def test_resuming_shows_the_state_first(drive):
    """On resume a graph's values begin with the state as it was loaded."""
    flow = asking(saver=InMemorySaver())
    drive.stream(flow, {"a": []}, T)
    assert drive.stream(flow, Command(resume="r"), T, stream_mode="values") == [
        {"a": []},
        {"a": ["r"]},
        {"a": ["r"], "b": 1},
    ]


def test_each_paused_task_tells_its_own_question(drive):
    """Two questions of one step are two items of one question."""
    graph = StateGraph(State)
    graph.add_node("x", lambda s: interrupt("x?"))
    graph.add_node("y", lambda s: interrupt("y?"))
    graph.add_edge(START, "x")
    graph.add_edge(START, "y")
    items = drive.stream(graph.compile(checkpointer=InMemorySaver()), {"a": []}, T)
    assert sorted(tuple(q.value for q in item["__interrupt__"]) for item in items) == [("x?",), ("y?",)]


def test_siblings_of_a_pause_show_in_the_values(drive):
    """When others finished beside a paused task, the state with their writes comes last."""
    graph = StateGraph(State)
    graph.add_node("ask", lambda s: interrupt("?"))
    graph.add_node("fine", lambda s: {"b": 1})
    graph.add_edge(START, "ask")
    graph.add_edge(START, "fine")
    items = drive.stream(graph.compile(checkpointer=InMemorySaver()), {"a": []}, T, stream_mode="values")
    assert items[-1] == {"a": [], "b": 1}


def test_a_nested_pause_is_told_at_each_level(drive):
    """The child tells its question first, then each graph above the same one."""
    inner = asking()
    flow = chain(("inner", inner), saver=InMemorySaver())
    items = drive.stream(flow, {"a": []}, T, subgraphs=True)
    assert [len(ns) for ns, _ in items] == [1, 0]
    assert items[0][1]["__interrupt__"][0].id == items[1][1]["__interrupt__"][0].id


@pytest.mark.parametrize("when", [{"interrupt_before": ["last"]}, {"interrupt_after": ["first"]}])
def test_a_breakpoint_is_an_empty_interrupt(drive, when):
    """A static pause is one update with an empty tuple, and nothing in values."""
    flow = chain(("first", lambda s: {"b": 1}), ("last", lambda s: {"b": 2}), saver=InMemorySaver())
    items = drive.stream(flow, {"a": []}, T, stream_mode=["updates", "values"], **when)
    assert items == [
        ("values", {"a": []}),
        ("updates", {"first": {"b": 1}}),
        ("values", {"a": [], "b": 1}),
        ("updates", {"__interrupt__": ()}),
    ]


# tasks, checkpoints, debug -------------------------------------------------------------------


def test_tasks_start_and_end(drive):
    """A task is told when it starts, with its input, and when it ends, with its writes."""
    flow = chain(("one", lambda s: {"b": 1}))
    start, result = drive.stream(flow, {"a": ["0"]}, stream_mode="tasks")
    assert (start["name"], start["input"]) == ("one", {"a": ["0"]})
    assert set(start) == {"id", "name", "input", "triggers"}
    assert result == {"id": start["id"], "name": "one", "error": None, "result": {"b": 1}, "interrupts": []}


def test_task_metadata_is_the_users(drive):
    """Metadata and tags of the caller show, what the engine adds does not."""
    config = {"metadata": {"user": "ada"}, "tags": ["t"], **T}
    start = drive.stream(chain(("one", lambda s: None)), {"a": []}, config, stream_mode="tasks")[0]
    assert start["metadata"] == {"user": "ada", "tags": ["t"]}


def test_repeated_writes_are_wrapped(drive):
    """A key written several times by one task shows all its writes."""
    flow = chain(("one", lambda s: [Command(update={"a": ["x"]}), Command(update={"a": ["y"]})]))
    result = drive.stream(flow, {"a": []}, stream_mode="tasks")[1]["result"]
    assert result == {"a": {"$writes": [["x"], ["y"]]}}


def test_the_result_of_a_failed_task_comes_before_its_error():
    """A failure is told, with the exception itself, before it leaves the stream."""
    error = ValueError("boom")

    def fail(state):
        raise error

    items = []
    with pytest.raises(ValueError, match="boom"):
        items.extend(chain(("bad", fail)).stream({"a": []}, stream_mode="tasks"))
    assert items[-1]["error"] is error
    assert items[-1]["result"] == {}


def test_checkpoints_list_what_is_due(drive):
    """Each checkpoint tells its place in the thread, the state, and the tasks to come."""
    flow = chain(("one", lambda s: {"b": 1}), saver=InMemorySaver())
    first, second, last = drive.stream(flow, {"a": []}, T, stream_mode="checkpoints")
    assert [c["next"] for c in (first, second, last)] == [["__start__"], ["one"], []]
    assert [c["metadata"]["step"] for c in (first, second, last)] == [-1, 0, 1]
    assert [c["metadata"]["source"] for c in (first, second, last)] == ["input", "loop", "loop"]
    assert first["parent_config"] is None
    assert second["parent_config"] == first["config"]
    assert set(last["config"]) == {"configurable"}
    assert [t["name"] for t in second["tasks"]] == ["one"]
    assert last["values"] == {"a": [], "b": 1}


def test_checkpoints_name_the_threads_of_subgraphs(drive):
    """A task that holds a graph shows where that graph keeps its state."""
    flow = chain(("inner", chain(("one", lambda s: None))), saver=InMemorySaver())
    due = drive.stream(flow, {"a": []}, T, stream_mode="checkpoints")[1]["tasks"][0]
    assert due["state"]["configurable"]["checkpoint_ns"] == f"inner:{due['id']}"


def test_no_checkpoints_without_a_saver(drive):
    """Where nothing is saved, the mode is silent."""
    assert drive.stream(chain(("one", lambda s: None)), {"a": []}, stream_mode="checkpoints") == []


def test_the_last_checkpoint_is_told_before_the_limit_ends_the_run():
    """When the steps are used up, what was saved last is told before the error."""
    graph = StateGraph(State)
    graph.add_node("again", lambda s: {"a": ["x"]})
    graph.add_edge(START, "again")
    graph.add_edge("again", "again")
    flow = graph.compile(checkpointer=InMemorySaver())
    items = []
    with pytest.raises(GraphRecursionError):
        items.extend(flow.stream({"a": []}, {**T, "recursion_limit": 2}, stream_mode="checkpoints"))
    assert items[-1]["values"] == {"a": ["x", "x"]}


def test_debug_wraps_tasks_and_checkpoints(drive):
    """Debug has step, time and kind around the same payloads."""
    flow = chain(("one", lambda s: {"b": 1}), saver=InMemorySaver())
    items = drive.stream(flow, {"a": []}, T, stream_mode="debug")
    assert [(i["type"], i["step"]) for i in items] == [
        ("checkpoint", -1), ("checkpoint", 0), ("task", 1), ("task_result", 1), ("checkpoint", 1),
    ]  # fmt: skip
    assert datetime.fromisoformat(items[0]["timestamp"]).utcoffset() == timedelta(0)


def test_order_within_a_superstep(drive):
    """Starts, then what a task writes, its update, its result, then values and the checkpoint."""

    def node(state):
        get_stream_writer()("hello")
        return {"b": 1}

    flow = chain(("one", node), saver=InMemorySaver())
    modes = ["values", "updates", "custom", "tasks", "checkpoints"]
    items = drive.stream(flow, {"a": []}, T, stream_mode=modes)
    told = [mode for mode, _ in items]
    assert told == [
        "checkpoints", "values", "checkpoints",
        "tasks", "custom", "updates", "tasks", "values", "checkpoints",
    ]  # fmt: skip


# custom --------------------------------------------------------------------------------------


def test_writers_come_by_parameter_runtime_and_function(drive):
    """All three ways lead to the same stream, and hand objects over as they are."""
    thing = object()

    def node(state, writer: StreamWriter, runtime: Runtime):
        writer(thing)
        runtime.stream_writer("runtime")
        get_stream_writer()("function")

    assert drive.stream(chain(("n", node)), {"a": []}, stream_mode="custom") == [thing, "runtime", "function"]


def test_a_writer_nobody_reads_does_nothing(drive):
    """Without the mode the writer is there, and silent."""
    flow = chain(("n", lambda s: get_stream_writer()("x")))
    assert drive.stream(flow, {"a": []}) == [{"n": None}]


def test_a_writer_works_in_a_thread_of_ones_own(drive):
    """A writer that was obtained in the node may be used from any thread."""

    def node(state):
        writer = get_stream_writer()
        thread = threading.Thread(target=writer, args=("from a thread",))
        thread.start()
        thread.join()

    assert drive.stream(chain(("n", node)), {"a": []}, stream_mode="custom") == ["from a thread"]


def test_writers_tell_under_their_graph(drive):
    """Custom data of a task called in a graph is the graph's, as its updates are."""

    @task
    def work():
        get_stream_writer()("w")

    inner = chain(("n", lambda s: work().result()))
    modes = ["custom", "updates"]
    items = drive.stream(chain(("inner", inner)), {"a": []}, stream_mode=modes, subgraphs=True)
    assert [(len(ns), mode) for ns, mode, _ in items] == [
        (1, "custom"), (1, "updates"), (1, "updates"), (0, "updates"),
    ]  # fmt: skip


def test_writes_of_child_graphs_need_subgraphs(drive):
    """Without subgraphs only the root's own writes are seen."""
    inner = chain(("n", lambda s: get_stream_writer()("inner")))
    assert drive.stream(chain(("inner", inner)), {"a": []}, stream_mode="custom") == []


# nested streams ------------------------------------------------------------------------------


def test_a_nested_stream_is_seen_by_its_caller_and_from_above(drive):
    """A graph that a node streams tells the node, and the outer stream that wants all depths."""
    inner = chain(("n", lambda s: get_stream_writer()("w")))
    seen = []

    def node(state):
        seen.extend(inner.stream({"a": []}, stream_mode="custom"))

    items = drive.stream(chain(("node", node)), {"a": []}, stream_mode=["custom", "updates"], subgraphs=True)
    assert seen == ["w"]
    assert [(len(ns), mode) for ns, mode, _ in items] == [(1, "custom"), (1, "updates"), (0, "updates")]


def test_a_nested_stream_stays_inside_unless_asked_for(drive):
    """Without subgraphs what a nested stream tells is its caller's alone."""
    inner = chain(("n", lambda s: get_stream_writer()("w")))

    def node(state):
        list(inner.stream({"a": []}, stream_mode=["custom", "updates"]))

    assert drive.stream(chain(("node", node)), {"a": []}, stream_mode=["custom"]) == []


# live ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["updates", "tasks", "debug"])
def test_tasks_called_in_a_node_are_told_while_it_runs(mode):
    """A node waits for the consumer to have seen its task's end."""
    seen = threading.Event()

    @task
    def quick():
        return "q"

    def node(state):
        quick().result()
        assert seen.wait(10)

    done = []
    for item in chain(("node", node)).stream({"a": []}, stream_mode=mode):
        done.append(item)
        if "quick" in repr(item) and "'q'" in repr(item):
            seen.set()
    assert seen.is_set()


def test_a_child_is_told_before_its_node_ends():
    """An inner update arrives while the outer node still runs."""
    seen = threading.Event()
    inner = chain(("n", lambda s: {"b": 1}))

    def node(state):
        inner.invoke({"a": []})
        assert seen.wait(10)

    for ns, _ in chain(("node", node)).stream({"a": []}, subgraphs=True):
        if ns:
            seen.set()
    assert seen.is_set()


def test_no_step_starts_before_it_is_asked_for():
    """The consumer sets the pace between steps."""
    ran = []
    flow = chain(("one", lambda s: ran.append(1)), ("two", lambda s: ran.append(2)))
    stream = flow.stream({"a": []}, stream_mode="updates")
    next(stream)
    assert ran == [1]
    stream.close()
    assert ran == [1]


def test_a_closed_stream_leaves_a_thread_to_go_on_with():
    """What finished before the close is there, and the rest runs later."""
    flow = chain(("one", lambda s: {"a": ["1"]}), ("two", lambda s: {"a": ["2"]}), saver=InMemorySaver())
    stream = flow.stream({"a": []}, T)
    next(stream)
    stream.close()
    assert flow.invoke(None, T) == {"a": ["1", "2"]}


def test_a_drain_ends_the_stream_after_what_was_told():
    """GraphDrained comes after the items of the steps that ran."""
    control = RunControl()
    flow = chain(
        ("one", lambda s: control.request_drain("enough")), ("two", lambda s: None), saver=InMemorySaver()
    )
    items = []
    with pytest.raises(GraphDrained, match="enough"):
        items.extend(flow.stream({"a": []}, T, control=control))
    assert items == [{"one": None}]


# entrypoints ---------------------------------------------------------------------------------


@task
def add(x, y=1):
    get_stream_writer()("in task")
    return x + y


@task
def broken():
    raise KeyError("k")


def asks(saver):
    @entrypoint(checkpointer=saver)
    def flow(x):
        get_stream_writer()("in body")
        total = add(x, y=2).result()
        return total + interrupt("more?")

    return flow


def test_tasks_of_an_entrypoint(drive):
    """Calls show their arguments; results are under the reserved keys."""

    @entrypoint()
    def flow(x):
        return add(x, y=2).result()

    start, called, returned, result = drive.stream(flow, 1, stream_mode="tasks")
    assert (start["name"], start["input"], tuple(start["triggers"])) == ("flow", 1, ("__start__",))
    assert (called["input"], tuple(called["triggers"])) == (((1,), {"y": 2}), ("__pregel_push",))
    assert returned["result"] == {"__return__": 3}
    assert result["result"] == {"__end__": 3}


def test_failed_tasks_of_an_entrypoint(drive):
    """A failed call has a result with its error, and no update."""

    @entrypoint()
    def flow(x):
        try:
            broken().result()
        except KeyError:
            return "caught"

    items = drive.stream(flow, 1, stream_mode=["tasks", "updates"])
    errors = [r["error"] for r in said("tasks", items) if r.get("error")]
    assert [type(e) for e in errors] == [KeyError]
    assert said("updates", items) == [{"flow": "caught"}]


def test_checkpoints_of_an_entrypoint(drive):
    """One for the input, one at the end, none for a task."""

    @entrypoint(checkpointer=InMemorySaver())
    def flow(x):
        return add(x).result()

    first, last = drive.stream(flow, 1, T, stream_mode="checkpoints")
    assert (first["metadata"]["step"], first["next"], first["values"]) == (-1, ["flow"], None)
    assert (last["metadata"]["step"], last["next"], last["values"]) == (0, [], 2)


def test_a_paused_entrypoint_in_each_mode(drive):
    """The question is the only value; the paused call that asked shows nothing itself."""
    items = drive.stream(asks(InMemorySaver()), 1, T, stream_mode=["values", "updates", "custom"])
    assert said("custom", items) == ["in body", "in task"]
    assert [list(v) for v in said("values", items)] == [["__interrupt__"]]
    assert [list(u) for u in said("updates", items)] == [["add"], ["__interrupt__"]]


def test_a_resumed_entrypoint_shows_its_value_alone(drive):
    """On resume no value comes before the real one; finished tasks start, and tell no more."""
    flow = asks(InMemorySaver())
    drive.stream(flow, 1, T)
    items = drive.stream(flow, Command(resume=4), T, stream_mode=["values", "updates", "tasks"])
    assert said("values", items) == [7]
    assert said("updates", items) == [{"flow": 7}]
    assert [t["name"] for t in said("tasks", items)] == ["flow", "add", "flow"]


def test_final_streams_its_value(drive):
    """What is saved besides the value is not shown."""

    @entrypoint(checkpointer=InMemorySaver())
    def flow(x):
        return entrypoint.final(value="shown", save="kept")

    assert drive.stream(flow, 1, T) == [{"flow": "shown"}]
    assert drive.stream(flow, 1, T, stream_mode="values") == ["shown"]


def test_a_value_of_none_is_a_value(drive):
    """An entrypoint that returns None shows it, once."""

    @entrypoint()
    def flow(x):
        return None

    assert drive.stream(flow, 1, stream_mode="values") == [None]
    assert drive.stream(flow, 1) == [{"flow": None}]


def test_a_task_that_asks_is_told_by_its_entrypoint(drive):
    """A call that pauses has no update and no result of its own."""

    @task
    def ask():
        return interrupt("in task?")

    @entrypoint(checkpointer=InMemorySaver())
    def flow(x):
        return ask().result()

    items = drive.stream(flow, 1, T, stream_mode=["updates", "tasks"])
    assert [list(u) for u in said("updates", items)] == [["__interrupt__"]]
    assert [t["name"] for t in said("tasks", items) if "result" in t] == ["flow"]


def test_tasks_nobody_awaited_are_told(drive):
    """Calls that the body left running end before the stream does."""

    @entrypoint()
    def flow(x):
        add(x)

    assert {"add": 2} in drive.stream(flow, 1)
