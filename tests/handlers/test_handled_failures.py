"""Error handlers of nodes: when they run, what they are told, what is kept."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest

from perdure.errors import GraphDrained, NodeError
from perdure.graph import END, START, StateGraph
from perdure.runtime import RunControl
from perdure.types import Command, RetryPolicy, Send, interrupt


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def boom(state):
    raise RuntimeError("boom")


def told(state, error: NodeError):
    return {"log": [f"{error.node}: {error.error}"]}


def graph(node=boom, handler=told, **options) -> StateGraph:
    """One node that fails, its handler, and a node that an edge leads to."""
    builder = StateGraph(State)
    builder.add_node("bad", node, error_handler=handler, **options)
    builder.add_node("after", lambda state: {"log": ["after"]})
    return builder.add_edge(START, "bad").add_edge("bad", "after")


def fresh(builder: StateGraph, saver: Any = None) -> Any:
    return builder.compile(checkpointer=saver)


def test_a_handler_is_told_which_node_failed_and_why(drive):
    """The handler gets the failed node's input and a NodeError, and what it returns is written."""
    seen = []

    def handler(state, error: NodeError):
        seen.append((state, error.node, repr(error.error)))
        return {"log": ["handled"]}

    result = drive.invoke(fresh(graph(handler=drive.fn(handler))), {"log": ["in"]})
    assert result == {"log": ["in", "handled"]}
    assert seen == [({"log": ["in"]}, "bad", "RuntimeError('boom')")]


def test_edges_of_the_failed_node_are_not_followed(drive):
    """After a handler nothing follows of itself."""
    assert drive.invoke(fresh(graph()), {"log": []}) == {"log": ["bad: boom"]}


def test_a_handler_says_where_to_go(drive):
    """A Command of the handler is followed."""

    def handler(state):
        return Command(goto="after", update={"log": ["handled"]})

    assert drive.invoke(fresh(graph(handler=handler)), {"log": []}) == {"log": ["handled", "after"]}


def test_retries_come_first(drive):
    """The handler runs once, after the last attempt."""
    attempts = []

    def node(state):
        attempts.append(1)
        raise ConnectionError(str(len(attempts)))

    retry = RetryPolicy(initial_interval=0, jitter=False, max_attempts=3)
    result = drive.invoke(fresh(graph(node, retry_policy=retry)), {"log": []})
    assert (len(attempts), result) == (3, {"log": ["bad: 3"]})


def test_writes_of_a_failed_node_are_dropped(drive):
    """What the node returned before its edge failed is not written, the handler's writes are."""
    builder = StateGraph(State).add_node("bad", lambda state: {"log": ["bad"]}, error_handler=told)
    builder.add_edge(START, "bad").add_conditional_edges("bad", boom, [END])
    assert drive.invoke(fresh(builder), {"log": []}) == {"log": ["bad: boom"]}


@pytest.mark.parametrize("calm_first", [True, False])
def test_a_handled_failure_stays_handled_beside_others(drive, saver, thread, calm_first):
    """A node beside the failed one is neither stopped nor lost; writes are in the order of names."""
    name = "a_calm" if calm_first else "z_calm"
    builder = graph().add_node(name, drive.fn(lambda state: {"log": ["calm"]})).add_edge(START, name)
    result = drive.invoke(fresh(builder, saver), {"log": []}, thread())
    assert result["log"] == (["calm", "bad: boom"] if calm_first else ["bad: boom", "calm"])


def test_a_failure_beside_a_handled_one_fails_the_run(drive, saver, thread):
    """The failure that nobody handles is raised, and the handled one is still handled on resume."""
    broken = [True]

    def other(state):
        if broken:
            raise KeyError("other")
        return {"log": ["other"]}

    ran = []

    def bad(state):
        ran.append(1)
        raise RuntimeError("boom")

    workflow = fresh(graph(bad).add_node("other", other).add_edge(START, "other"), saver)
    with pytest.raises(KeyError):
        drive.invoke(workflow, {"log": []}, thread())
    broken.clear()
    assert drive.invoke(workflow, None, thread()) == {"log": ["bad: boom", "other"]}
    assert ran == [1]


def test_packets_have_handlers_of_their_own(drive, saver, thread):
    """Each packet that fails is handled by itself, in the order in which they were sent."""

    def bad(arg):
        if arg["n"] == 1:
            return {"log": ["1 is fine"]}
        raise RuntimeError(str(arg["n"]))

    def handler(arg, error: NodeError):
        return {"log": [f"{arg['n']} {error.error}"]}

    builder = StateGraph(State).add_node("bad", bad, error_handler=handler)
    builder.add_conditional_edges(START, lambda state: [Send("bad", {"n": n}) for n in range(3)], ["bad"])
    result = drive.invoke(fresh(builder, saver), {"log": []}, thread())
    assert result == {"log": ["0 0", "1 is fine", "2 2"]}


# what is not handled --------------------------------------------------------------------------


def test_a_failing_handler_fails_the_run(drive, saver, thread):
    """The handler's own error is raised; resumed, the handler runs again and the node does not."""
    ran, broken = [], [True]

    def bad(state):
        ran.append("bad")
        raise RuntimeError("boom")

    def handler(state, error: NodeError):
        ran.append(f"handler: {error.error!r}")
        if broken:
            raise ValueError("handler")
        return {"log": ["handled"]}

    workflow = fresh(graph(bad, handler), saver)
    with pytest.raises(ValueError, match="handler"):
        drive.invoke(workflow, {"log": []}, thread())
    broken.clear()
    assert drive.invoke(workflow, None, thread()) == {"log": ["handled"]}
    assert ran == ["bad", *["handler: RuntimeError('boom')"] * 2]


def test_a_question_is_not_handled(drive, saver, thread):
    """A node that pauses is paused."""
    workflow = fresh(graph(lambda state: {"log": [interrupt("name?")]}), saver)
    assert drive.invoke(workflow, {"log": []}, thread())["__interrupt__"][0].value == "name?"
    assert drive.invoke(workflow, Command(resume="Ada"), thread()) == {"log": ["Ada", "after"]}


def test_a_handler_may_ask(drive, saver, thread):
    """A handler's question is shown and answered; the error that it gets is the first one."""
    ran = []

    def bad(state):
        ran.append(1)
        raise RuntimeError("boom")

    def handler(state, error: NodeError):
        return {"log": [interrupt("what now?"), repr(error.error)]}

    workflow = fresh(graph(bad, handler), saver)
    question = drive.invoke(workflow, {"log": []}, thread())["__interrupt__"][0]
    assert drive.get_state(workflow, thread()).interrupts == (question,)
    result = drive.invoke(workflow, Command(resume="go on"), thread())
    assert (result, ran) == ({"log": ["go on", "RuntimeError('boom')"]}, [1])


def test_a_command_for_the_parent_is_not_handled(drive):
    """A node's Command for the graph above reaches that graph."""

    def up(state):
        return Command(graph=Command.PARENT, update={"log": ["from below"]})

    child = StateGraph(State).add_node("up", up, error_handler=told).add_edge(START, "up").compile()
    parent = StateGraph(State).add_node("child", child, error_handler=told).add_edge(START, "child")
    assert drive.invoke(fresh(parent), {"log": []}) == {"log": ["from below"]}


def test_a_drain_is_not_handled(drive, saver, thread):
    """A drain from below leaves the run as one, and the node goes on when it is resumed."""
    control = RunControl()

    def ask_for_it(state):
        control.request_drain("deploy")
        return {"log": ["first"]}

    child = StateGraph(State).add_node("first", ask_for_it)
    child.add_node("second", lambda state: {"log": ["second"]})
    child.add_edge(START, "first").add_edge("first", "second")
    parent = StateGraph(State).add_node("child", child.compile(), error_handler=told)
    workflow = fresh(parent.add_edge(START, "child"), saver)
    with pytest.raises(GraphDrained):
        drive.invoke(workflow, {"log": []}, thread(), control=control)
    assert drive.invoke(workflow, None, thread()) == {"log": ["first", "second"]}


def test_a_cancelled_node_is_not_handled(saver, thread):
    """Cancelled from outside, a node has not failed, though its clean-up may: it runs again."""
    started, ran = asyncio.Event(), []

    async def bad(state):
        ran.append(1)
        if len(ran) > 1:
            return {"log": ["done"]}
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("clean-up failed")

    workflow = fresh(graph(bad), saver)

    async def main():
        run = asyncio.ensure_future(workflow.ainvoke({"log": []}, thread()))
        await started.wait()
        run.cancel()
        await asyncio.wait([run])
        return await workflow.ainvoke(None, thread())

    assert asyncio.run(main()) == {"log": ["done", "after"]}


# what is recorded -----------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_the_failure_is_recorded_before_the_handler_starts(drive, saver, thread, durability):
    """Under `sync` the error and its node are on disk when the handler starts; after the run in any case."""
    found: list[dict[str, Any]] = []

    def look(state=None):
        for item in saver.list(thread()):
            writes = {channel: value for _, channel, value in item.pending_writes}
            if "__error_source_node__" in writes:
                found.append(writes)

    def handler(state):
        if durability == "sync":
            look()

    drive.invoke(fresh(graph(handler=handler), saver), {"log": []}, thread(), durability=durability)
    if durability == "async":
        look()
    assert found[0]["__error_source_node__"] == "bad"
    assert "boom" in str(found[0]["__error__"])


def test_a_crash_before_the_handler_resumes_at_the_handler(drive, saver, thread):
    """A run that was cut off while the handler ran goes on there, with the original error."""
    ran, cut = [], [True]

    class Cut(BaseException):
        """The process ends here."""

    def bad(state):
        ran.append("bad")
        raise LookupError("no such user", 7)

    def handler(state, error: NodeError):
        ran.append(error.error.args)
        if cut:
            raise Cut
        return {"log": [f"{type(error.error).__name__} in {error.node}"]}

    workflow = fresh(graph(bad, handler), saver)
    with pytest.raises(Cut):
        drive.invoke(workflow, {"log": []}, thread())
    cut.clear()
    assert drive.invoke(workflow, None, thread()) == {"log": ["LookupError in bad"]}
    assert ran == ["bad", ("no such user", 7), ("no such user", 7)]


def test_a_handler_that_finished_is_not_run_again(drive, saver, thread):
    """Its writes are kept when a node beside it fails."""
    ran, broken = [], [True]

    def handler(state):
        ran.append(1)
        return {"log": ["handled"]}

    def other(state):
        if broken:
            raise KeyError("other")

    async def slow_other(state):
        while not ran:
            await asyncio.sleep(0)
        return other(state)

    builder = graph(drive.fn(boom), drive.fn(handler))
    if drive.is_async:
        builder.add_node("other", slow_other)
    else:
        builder.add_node("other", other).add_edge("other", END)
    workflow = fresh(builder.add_edge(START, "other"), saver)
    with pytest.raises(KeyError):
        drive.invoke(workflow, {"log": []}, thread())
    broken.clear()
    assert drive.invoke(workflow, None, thread())["log"] == ["handled"]
    assert ran == [1]


def test_without_its_handler_a_node_runs_again(drive, saver, thread):
    """A newer program that has no handler any more tries the node again."""

    def failing(state):
        raise ValueError("handler")

    with pytest.raises(ValueError):
        drive.invoke(fresh(graph(handler=failing), saver), {"log": []}, thread())
    newer = StateGraph(State).add_node("bad", lambda state: {"log": ["mended"]}).add_edge(START, "bad")
    assert drive.invoke(fresh(newer, saver), None, thread()) == {"log": ["mended"]}


# what is seen ---------------------------------------------------------------------------------


def test_updates_show_the_handler(drive):
    """The stream of updates has the handler's name and nothing of the failed node."""
    chunks = drive.stream(fresh(graph()), {"log": []}, stream_mode="updates")
    assert chunks == [{"__error_handler__bad": {"log": ["bad: boom"]}}]


def test_tasks_show_the_failure_and_the_handler(drive):
    """The stream of tasks shows how both ended."""
    chunks = drive.stream(fresh(graph()), {"log": []}, stream_mode="tasks")
    ended = [(chunk["name"], repr(chunk["error"])) for chunk in chunks if "result" in chunk]
    assert ended == [("bad", "RuntimeError('boom')"), ("__error_handler__bad", "None")]


def test_a_thread_that_waits_for_the_handler_shows_it(drive, saver, thread):
    """The failed task is shown with its error, and the handler is what comes next."""

    def failing(state):
        raise ValueError("handler")

    workflow = fresh(graph(handler=failing), saver)
    with pytest.raises(ValueError):
        drive.invoke(workflow, {"log": []}, thread())
    state = drive.get_state(workflow, thread())
    assert state.next == ("__error_handler__bad",)
    assert [(task.name, task.error) for task in state.tasks] == [
        ("bad", "RuntimeError('boom')"),
        ("__error_handler__bad", "ValueError('handler')"),
    ]


def test_history_shows_the_failure(drive, saver, thread):
    """The step in which it failed has the failed task with its error, and the handler's result."""
    workflow = fresh(graph(), saver)
    drive.invoke(workflow, {"log": []}, thread())
    state = drive.history(workflow, thread())[1]
    assert state.next == ("bad",)
    assert [(task.name, task.error, task.result) for task in state.tasks] == [
        ("bad", "RuntimeError('boom')", None),
        ("__error_handler__bad", None, {"log": ["bad: boom"]}),
    ]


def test_an_update_may_stand_for_the_failed_node(drive, saver, thread):
    """While the handler is open, `update_state` fills in what the node did not return."""

    def failing(state):
        raise ValueError("handler")

    workflow = fresh(graph(handler=failing), saver)
    with pytest.raises(ValueError):
        drive.invoke(workflow, {"log": []}, thread())
    drive.update_state(workflow, thread(), {"log": ["by hand"]}, "bad")
    assert drive.invoke(workflow, None, thread()) == {"log": ["by hand", "after"]}


# defaults -------------------------------------------------------------------------------------


def test_a_default_handler_takes_what_has_none(drive):
    """`set_node_defaults(error_handler=)` holds for nodes that name none themselves."""
    builder = StateGraph(State).add_node("own", boom, error_handler=lambda state: {"log": ["own"]})
    builder.add_node("plain", boom).add_edge(START, "own").add_edge(START, "plain")
    builder.set_node_defaults(error_handler=lambda state, error: {"log": [f"default: {error.node}"]})

    def default(state, error: NodeError):
        return {"log": [f"default: {error.node}"]}

    builder.set_node_defaults(error_handler=default)
    assert drive.invoke(fresh(builder), {"log": []}) == {"log": ["own", "default: plain"]}


def test_a_graph_with_a_default_handler_compiles_again():
    """Compiling twice gives two workflows that do the same, and adds nothing to the graph."""
    builder = StateGraph(State).add_node("bad", boom).add_edge(START, "bad")
    builder.set_node_defaults(error_handler=told)
    results = [fresh(builder).invoke({"log": []}) for _ in range(2)]
    assert results == [{"log": ["bad: boom"]}] * 2
    assert list(builder.nodes) == ["bad"]


def test_handlers_never_handle_handlers(drive):
    """A default handler does not take what another handler raises."""

    def failing(state):
        raise ValueError("own handler")

    builder = graph(handler=failing).set_node_defaults(error_handler=told)
    with pytest.raises(ValueError, match="own handler"):
        drive.invoke(fresh(builder), {"log": []})
