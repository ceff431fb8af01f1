"""Changing a thread in the name of a node."""

from __future__ import annotations

from typing import Any

import pytest

from inspection.graphs import Words, adds, asks, chain, fork
from perdure import Command, Send, entrypoint, interrupt, task
from perdure.config import RunnableConfig, get_config
from perdure.errors import ContextError, InvalidUpdateError, MissingThreadIdError
from perdure.graph import END, START, StateGraph
from perdure.runtime import Runtime
from perdure.types import Overwrite


def words(state: Any) -> Any:
    return state.values["words"]


# what an update does ----------------------------------------------------------------------------


def test_an_update_is_a_checkpoint(drive: Any, saver: Any, thread: Any) -> None:
    """It applies the values by the reducers, and is the new head; its config is returned."""
    graph = chain("a", "b").compile(saver, interrupt_before=["b"])
    drive.invoke(graph, {"words": []}, thread())
    before = drive.get_state(graph, thread())
    config = drive.update_state(graph, thread(), {"words": ["u"]}, "a")
    state = drive.get_state(graph, thread())
    assert state.config == config
    assert state.parent_config == before.config
    assert (words(state), state.next) == (["a", "u"], ("b",))
    assert state.metadata == {"source": "update", "step": 2, "parents": {}}
    assert drive.invoke(graph, None, thread()) == {"words": ["a", "u", "b"]}


def test_the_edges_of_the_node_are_followed(drive: Any, saver: Any, thread: Any) -> None:
    """What comes next is what the named node leads to, not what was due."""
    graph = chain("a", "b", "c").compile(saver, interrupt_before=["b"])
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), {"words": ["u"]}, "b")
    assert drive.get_state(graph, thread()).next == ("c",)
    assert drive.invoke(graph, None, thread()) == {"words": ["a", "u", "c"]}


def test_conditional_edges_are_followed(drive: Any, saver: Any, thread: Any) -> None:
    """The routing function sees the state with the update applied."""
    made = chain("a").add_node("more", adds("more"))
    made.add_conditional_edges("a", lambda state: END if "stop" in state["words"] else "more", ["more", END])
    graph = made.compile(saver, interrupt_before=["more"])
    drive.invoke(graph, {"words": []}, thread())
    assert drive.get_state(graph, thread()).next == ("more",)
    drive.update_state(graph, thread(), {"words": ["stop"]})
    assert drive.get_state(graph, thread()).next == ()


def test_none_follows_the_edges_alone(drive: Any, saver: Any, thread: Any) -> None:
    """Values None write nothing."""
    graph = chain("a", "b").compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), None, "a")
    state = drive.get_state(graph, thread())
    assert (words(state), state.next) == (["a", "b"], ("b",))


def test_a_command_updates_and_goes(drive: Any, saver: Any, thread: Any) -> None:
    """A Command as values acts as if the node had returned it, beside the node's own edges."""
    made = chain("a", "b").add_node("c", adds("c"))
    graph = made.compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), Command(update={"words": ["u"]}, goto="c"), "b")
    state = drive.get_state(graph, thread())
    assert (words(state), state.next) == (["a", "b", "u"], ("c",))


def test_sends_of_an_update_become_tasks(drive: Any, saver: Any, thread: Any) -> None:
    """Packets that the update sends are due next."""
    made = chain("a").add_node("p", lambda given: {"words": [given]})
    graph = made.compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), Command(goto=[Send("p", "1"), Send("p", "2")]), "a")
    assert drive.get_state(graph, thread()).next == ("p", "p")
    assert drive.invoke(graph, None, thread()) == {"words": ["a", "1", "2"]}


def test_overwrite_passes_the_reducer(drive: Any, saver: Any, thread: Any) -> None:
    """Overwrite replaces the value."""
    graph = chain("a").compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), {"words": Overwrite(["only"])}, "a")
    assert words(drive.get_state(graph, thread())) == ["only"]


def test_history_shows_the_result_of_an_update(drive: Any, saver: Any, thread: Any) -> None:
    """The task that the update stood for carries what was given, on the checkpoint before."""
    graph = chain("a", "b").compile(saver, interrupt_before=["b"])
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), {"words": ["u"]}, "b")
    before = drive.history(graph, thread())[1]
    assert [(t.name, t.result) for t in before.tasks] == [("b", {"words": ["u"]})]


def test_a_task_id_says_whose_result_it_is(drive: Any, saver: Any, thread: Any) -> None:
    """Of several tasks of one node, the one with that id is filled."""
    made: StateGraph[Any] = StateGraph(Words)
    made.add_node("p", lambda given: {"words": [given]})
    made.add_conditional_edges(START, lambda state: [Send("p", "1"), Send("p", "2")], ["p"])
    graph = made.compile(saver, interrupt_before=["p"])
    drive.invoke(graph, {"words": []}, thread())
    second = drive.get_state(graph, thread()).tasks[1].id
    drive.update_state(graph, thread(), {"words": ["u"]}, "p", second)
    before = drive.history(graph, thread())[1]
    assert [t.result for t in before.tasks] == [None, {"words": ["u"]}]


def test_a_question_goes_with_the_update(drive: Any, saver: Any, thread: Any) -> None:
    """After an update in another node's name the paused one is due anew, and asks again."""
    graph = chain("a", "b", b=asks).compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), {"words": ["u"]}, "a")
    state = drive.get_state(graph, thread())
    assert (state.next, state.interrupts) == (("b",), ())
    assert "__interrupt__" in drive.invoke(graph, None, thread())
    assert drive.invoke(graph, Command(resume="yes"), thread()) == {"words": ["a", "u", "yes"]}


def test_an_old_checkpoint_is_forked(drive: Any, saver: Any, thread: Any) -> None:
    """An update of a checkpoint in the past makes a branch; only what comes later runs."""
    ran: list[str] = []

    def notes(name: str) -> Any:
        def node(state: Any) -> Any:
            ran.append(name)
            return {"words": [name]}

        return node

    graph = chain("a", "b", a=notes("a"), b=notes("b")).compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    past = drive.history(graph, thread())[1]
    config = drive.update_state(graph, past.config, {"words": ["u"]}, "a")
    assert drive.invoke(graph, None, config) == {"words": ["a", "u", "b"]}
    assert ran == ["a", "b", "b"]


def test_the_callers_metadata_is_kept(drive: Any, saver: Any, thread: Any) -> None:
    """Metadata of the config goes into the checkpoint."""
    graph = chain("a").compile(saver)
    drive.update_state(graph, {**thread(user="u"), "metadata": {"m": 1}}, {"words": []}, "a")
    found = drive.get_state(graph, thread()).metadata
    assert (found["m"], found["user"], found["source"]) == (1, "u", "update")


# in whose name ----------------------------------------------------------------------------------


def test_without_a_name_it_is_who_wrote_last(drive: Any, saver: Any, thread: Any) -> None:
    """The node that ran last stands for the update; its edges are followed again."""
    graph = chain("a", "b", "c").compile(saver, interrupt_before=["c"])
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), {"words": ["u"]})
    state = drive.get_state(graph, thread())
    assert (words(state), state.next) == (["a", "b", "u"], ("c",))


def test_on_a_fresh_thread_it_is_the_input(drive: Any, saver: Any, thread: Any) -> None:
    """Values act as input where nothing has run."""
    graph = chain("a").compile(saver)
    drive.update_state(graph, thread(), {"words": ["u"]})
    state = drive.get_state(graph, thread())
    assert (words(state), state.next) == (["u"], ("a",))
    assert state.metadata == {"source": "update", "step": 0, "parents": {}}
    assert state.parent_config is None
    assert drive.invoke(graph, None, thread()) == {"words": ["u", "a"]}


def test_a_named_node_on_a_fresh_thread(drive: Any, saver: Any, thread: Any) -> None:
    """The thread starts behind that node."""
    graph = chain("a", "b").compile(saver)
    drive.update_state(graph, thread(), {"words": ["u"]}, "a")
    assert drive.invoke(graph, None, thread()) == {"words": ["u", "b"]}


def test_after_a_parallel_step_it_is_not_clear(drive: Any, saver: Any, thread: Any) -> None:
    """Two nodes that wrote in the same step: the error says to name one."""
    made: StateGraph[Any] = StateGraph(Words)
    for name in ("x", "y"):
        made.add_node(name, adds(name)).add_edge(START, name)
    graph = made.compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    with pytest.raises(InvalidUpdateError, match=r"Ambiguous update, specify as_node: x, y wrote"):
        drive.update_state(graph, thread(), {"words": ["u"]})


def test_an_unknown_node_is_refused(drive: Any, saver: Any, thread: Any) -> None:
    """The error lists the nodes, and nothing is stored."""
    graph = chain("a").compile(saver)
    with pytest.raises(InvalidUpdateError, match=r"Node nope does not exist; .*a"):
        drive.update_state(graph, thread(), {"words": []}, "nope")
    assert drive.history(graph, thread()) == []


# what is open beside it -------------------------------------------------------------------------


def test_what_siblings_finished_is_kept(drive: Any, saver: Any, thread: Any) -> None:
    """An update for the paused task completes its step: the finished sibling's words and edges count."""
    graph = fork(y=asks).compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), {"words": ["u"]}, "y")
    state = drive.get_state(graph, thread())
    assert (words(state), state.next) == (["x", "u"], ("z",))


def test_other_tasks_of_the_step_stay_due(drive: Any, saver: Any, thread: Any) -> None:
    """An update for one of two due nodes leaves the other one due."""
    graph = fork().compile(saver, interrupt_before=["x"])
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), {"words": ["u"]}, "x")
    assert drive.get_state(graph, thread()).next == ("y", "z")
    assert drive.invoke(graph, None, thread()) == {"words": ["u", "y", "z"]}


def test_without_a_name_the_finished_sibling_stands_for_it(drive: Any, saver: Any, thread: Any) -> None:
    """In a half-finished step, the one that has finished wrote last; the paused one stays due."""
    graph = fork(y=asks).compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), {"words": ["u"]})
    state = drive.get_state(graph, thread())
    assert (words(state), state.next) == (["x", "u"], ("y", "z"))


def test_packets_of_other_nodes_stay_due(drive: Any, saver: Any, thread: Any) -> None:
    """An update for all packets of one node leaves another's where they are."""
    made: StateGraph[Any] = StateGraph(Words)
    for name in ("p", "q"):
        made.add_node(name, lambda given, name=name: {"words": [f"{name}{given}"]})  # type: ignore[misc]
    sends = [Send("p", 1), Send("q", 2), Send("p", 3)]
    made.add_conditional_edges(START, lambda state: sends, ["p", "q"])
    graph = made.compile(saver, interrupt_before=["p"])
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), Command(update={"words": ["u"]}, goto=Send("p", 4)), "p")
    assert drive.get_state(graph, thread()).next == ("q", "p")
    assert drive.invoke(graph, None, thread()) == {"words": ["u", "q2", "p4"]}


def test_a_node_outside_the_step_gives_it_up(drive: Any, saver: Any, thread: Any) -> None:
    """An answer in the agent's name drops the tool that was due."""
    made = chain("agent").add_node("tool", adds("tool"))
    made.add_conditional_edges("agent", lambda s: END if "done" in s["words"] else "tool", ["tool", END])
    made.add_edge("tool", "agent")
    graph = made.compile(saver, interrupt_before=["tool"])
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), {"words": ["done"]})
    assert drive.get_state(graph, thread()).next == ()


def test_a_filled_join_is_not_run_again(drive: Any, saver: Any, thread: Any) -> None:
    """An update for a node that waited for several others counts as its run."""
    made: StateGraph[Any] = StateGraph(Words)
    for name in ("a", "b", "j", "k"):
        made.add_node(name, adds(name))
    made.add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "j").add_edge("j", "k")
    graph = made.compile(saver, interrupt_before=["j"])
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), {"words": ["u"]}, "j")
    assert drive.invoke(graph, None, thread()) == {"words": ["a", "b", "u", "k"]}


def test_a_triggered_join_outlives_a_jump(drive: Any, saver: Any, thread: Any) -> None:
    """What a join has gathered is not lost by an update elsewhere: its node stays due."""
    made: StateGraph[Any] = StateGraph(Words)
    for name in ("a", "b", "j", "k"):
        made.add_node(name, adds(name))
    made.add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "j")
    graph = made.compile(saver, interrupt_before=["j"])
    drive.invoke(graph, {"words": []}, thread())
    drive.update_state(graph, thread(), {"words": ["u"]}, "k")
    assert drive.get_state(graph, thread()).next == ("j",)
    assert drive.invoke(graph, None, thread()) == {"words": ["a", "b", "u", "j"]}


def test_what_a_command_put_beside_the_step_is_kept(drive: Any, saver: Any, thread: Any) -> None:
    """An update given with `Command` while a task was paused is part of what is updated."""
    graph = chain("a", a=asks).add_node("b", asks).compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    drive.invoke(graph, Command(update={"words": ["beside"]}, goto="b"), thread())
    drive.update_state(graph, thread(), {"words": ["u"]}, "a")
    state = drive.get_state(graph, thread())
    assert (words(state), state.next) == (["beside", "u"], ("b",))


# routing functions ------------------------------------------------------------------------------


def test_a_routing_function_gets_what_it_asks_for(drive: Any, saver: Any, thread: Any) -> None:
    """Config and runtime are injected, and get_config works, though nothing runs."""
    seen: list[Any] = []

    def route(state: Any, config: RunnableConfig, runtime: Runtime[Any]) -> Any:
        seen.append((config["configurable"]["user"], get_config()["configurable"]["user"], runtime.store))
        return "b"

    made = chain("a").add_node("b", adds("b"))
    graph = made.add_conditional_edges("a", route, ["b"]).compile(saver)
    drive.update_state(graph, thread(user="u"), {"words": []}, "a")
    assert seen == [("u", "u", None)]


@pytest.mark.parametrize("what", ["task", "question"])
def test_a_routing_function_cannot_run_anything(drive: Any, saver: Any, thread: Any, what: str) -> None:
    """There is no run that a call or a question could be part of."""

    @task
    def called() -> str:
        return "b"

    def route(state: Any) -> Any:
        return called() if what == "task" else interrupt("?")

    made = chain("a").add_node("b", adds("b"))
    graph = made.add_conditional_edges("a", route, ["b"]).compile(saver)
    with pytest.raises(ContextError, match="update_state"):
        drive.update_state(graph, thread(), {"words": []}, "a")


def test_an_async_routing_function_needs_the_async_method(saver: Any, thread: Any) -> None:
    """The sync method refuses it and names the other."""
    import asyncio

    async def route(state: Any) -> Any:
        return "b"

    made = chain("a").add_node("b", adds("b"))
    graph = made.add_conditional_edges("a", route, ["b"]).compile(saver)
    with pytest.raises(TypeError, match="aupdate_state"):
        graph.update_state(thread(), {"words": []}, "a")
    asyncio.run(graph.aupdate_state(thread(), {"words": ["u"]}, "a"))
    assert graph.get_state(thread()).next == ("b",)


def test_a_failing_routing_function_leaves_the_thread_free(drive: Any, saver: Any, thread: Any) -> None:
    """Its error comes out, nothing is stored, and the thread can be used."""

    def route(state: Any) -> Any:
        raise KeyError("no way")

    made = chain("a").add_node("b", adds("b"))
    graph = made.add_conditional_edges("a", route, ["b"]).compile(saver)
    with pytest.raises(KeyError, match="no way"):
        drive.update_state(graph, thread(), {"words": []}, "a")
    assert drive.history(graph, thread()) == []
    drive.update_state(graph, thread(), {"words": ["u"]})
    assert drive.get_state(graph, thread()).next == ("a",)


# refusals ---------------------------------------------------------------------------------------


def test_an_update_needs_saver_and_thread(drive: Any, saver: Any, thread: Any) -> None:
    """Without them the errors are those of looking."""
    with pytest.raises(ValueError, match="No checkpointer set"):
        drive.update_state(chain("a").compile(), thread(), {"words": []})
    with pytest.raises(MissingThreadIdError):
        drive.update_state(chain("a").compile(saver), {}, {"words": []})


def test_an_unknown_checkpoint_cannot_be_updated(drive: Any, saver: Any, thread: Any) -> None:
    """The error names the id and says what to do."""
    graph = chain("a").compile(saver)
    gone = thread(checkpoint_id="1f1ed0ea-d93a-6207-bfff-c752c8b2f10d")
    with pytest.raises(InvalidUpdateError, match="has no checkpoint 1f1ed0ea"):
        drive.update_state(graph, gone, {"words": []}, "a")


def test_values_that_do_not_fit_are_refused(drive: Any, saver: Any, thread: Any) -> None:
    """The error is the one that the node would have got."""
    graph = chain("a").compile(saver)
    with pytest.raises(InvalidUpdateError, match="Expected dict, got 5"):
        drive.update_state(graph, thread(), 5, "a")
    with pytest.raises(InvalidUpdateError, match="leave `graph` out"):
        drive.update_state(graph, thread(), Command(graph=Command.PARENT, update={"words": []}), "a")


def test_a_value_that_cannot_be_stored_is_refused(drive: Any, saver: Any, thread: Any) -> None:
    """Nothing of the update is stored, and the thread stays free."""
    graph = chain("a").compile(saver)
    with pytest.raises(TypeError):
        drive.update_state(graph, thread(), {"words": [(n for n in ())]}, "a")
    assert drive.history(graph, thread()) == []
    drive.update_state(graph, thread(), {"words": ["u"]}, "a")


def test_the_result_of_a_call_cannot_be_set(drive: Any, saver: Any, thread: Any) -> None:
    """A call's id is no task's: the update is refused, and the thread is as it was."""

    @task
    def charge(item: str) -> str:
        return f"charged {item}"

    @entrypoint(checkpointer=saver)
    def order(item: str) -> Any:
        return charge(item).result(), interrupt("sure?")

    drive.invoke(order, "lamp", thread())
    call = drive.get_state(order, thread()).tasks[0].calls[0]
    with pytest.raises(InvalidUpdateError, match="is a call of 'charge'"):
        drive.update_state(order, thread(), "forged", task_id=call.id)
    assert drive.invoke(order, Command(resume=True), thread()) == ("charged lamp", True)
