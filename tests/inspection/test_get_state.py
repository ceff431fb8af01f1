"""A thread as it stands: what is there, what is next, what is open."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from inspection.graphs import Words, adds, asks, chain, fork
from perdure import Command, Send, entrypoint, interrupt, task
from perdure.errors import MissingThreadIdError
from perdure.graph import START, StateGraph


def fails_once() -> Any:
    ran: list[int] = []

    def node(state: Any) -> Any:
        ran.append(1)
        if len(ran) == 1:
            raise ValueError("not yet")
        return {"words": ["ok"]}

    return node


# where nothing is -------------------------------------------------------------------------------


def test_an_unknown_thread_is_empty(drive: Any, saver: Any, thread: Any) -> None:
    """Looking at a thread that nobody has used is no error, and makes nothing."""
    graph = chain("a").compile(saver)
    state = drive.get_state(graph, thread("new", user="u"))
    assert state == ({}, (), thread("new", user="u"), None, None, None, (), ())
    assert drive.history(graph, thread("new")) == []


def test_an_unknown_checkpoint_is_empty(drive: Any, saver: Any, thread: Any) -> None:
    """A checkpoint id that the thread does not have is treated as an unknown thread."""
    graph = chain("a").compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    gone = thread(checkpoint_id="1f1ed0ea-d93a-6207-bfff-c752c8b2f10d")
    assert drive.get_state(graph, gone).values == {}
    assert drive.history(graph, gone) == []


def test_without_a_saver_there_is_nothing_to_look_at(drive: Any, thread: Any) -> None:
    """The error says that no checkpointer is set."""
    graph = chain("a").compile()
    for look in (drive.get_state, drive.history):
        with pytest.raises(ValueError, match="No checkpointer set"):
            look(graph, thread())


@pytest.mark.parametrize("config", [{}, {"configurable": {}}, {"configurable": {"checkpoint_ns": ""}}])
def test_a_thread_id_is_needed(drive: Any, saver: Any, config: Any) -> None:
    """Without one there is a typed error that names it."""
    graph = chain("a").compile(saver)
    for look in (drive.get_state, drive.history):
        with pytest.raises(MissingThreadIdError, match="thread_id"):
            look(graph, config)


# a thread that stands ---------------------------------------------------------------------------


def test_a_finished_thread_shows_its_values(drive: Any, saver: Any, thread: Any) -> None:
    """Values, config, time and metadata of the last checkpoint; nothing is next."""
    graph = chain("a", "b").compile(saver)
    drive.invoke(graph, {"words": ["in"]}, thread())
    state = drive.get_state(graph, thread())
    assert state.values == {"words": ["in", "a", "b"]}
    assert (state.next, state.tasks, state.interrupts) == ((), (), ())
    assert state.metadata == {"source": "loop", "step": 2, "parents": {}}
    assert datetime.fromisoformat(state.created_at).tzinfo is not None
    named = state.config["configurable"]
    assert (named["thread_id"], named["checkpoint_ns"]) == ("t", "")
    assert set(named) == {"thread_id", "checkpoint_ns", "checkpoint_id"}
    assert state.parent_config == drive.history(graph, thread())[1].config


def test_a_thread_id_may_be_a_number(drive: Any, saver: Any, thread: Any) -> None:
    """Thread 7 is thread "7"."""
    graph = chain("a").compile(saver)
    drive.invoke(graph, {"words": []}, thread(7))
    assert drive.get_state(graph, thread("7")).values == {"words": ["a"]}
    assert drive.get_state(graph, thread(7)).config["configurable"]["thread_id"] == "7"


def test_a_workflow_may_name_its_thread_itself(drive: Any, saver: Any, thread: Any) -> None:
    """A config bound with `with_config` counts as if it had been passed."""
    graph = chain("a").compile(saver).with_config(thread("bound"))
    drive.invoke(graph, {"words": []})
    assert drive.get_state(graph, {}).values == {"words": ["a"]}


def test_a_finished_sibling_counts_already(drive: Any, saver: Any, thread: Any) -> None:
    """Live values include what a task of the open step has finished; it is not next any more."""
    graph = fork(y=asks).compile(saver)
    drive.invoke(graph, {"words": ["in"]}, thread())
    state = drive.get_state(graph, thread())
    assert state.values == {"words": ["in", "x"]}
    assert state.next == ("y",)
    assert [(t.name, t.result, len(t.interrupts)) for t in state.tasks] == [
        ("x", {"words": ["x"]}, 0),
        ("y", None, 1),
    ]


def test_an_addressed_checkpoint_is_shown_as_its_step_began(drive: Any, saver: Any, thread: Any) -> None:
    """With a checkpoint id, the same thread shows neither the sibling's words nor takes it off next."""
    graph = fork(y=asks).compile(saver)
    drive.invoke(graph, {"words": ["in"]}, thread())
    live = drive.get_state(graph, thread())
    state = drive.get_state(graph, live.config)
    assert state.values == {"words": ["in"]}
    assert state.next == ("x", "y")
    assert [t.result for t in state.tasks] == [{"words": ["x"]}, None]
    assert state.config == live.config


def test_next_follows_the_order_of_the_nodes(drive: Any, saver: Any, thread: Any) -> None:
    """Nodes come as they were added, not by name; packets come before them."""
    made: StateGraph[Any] = StateGraph(Words)
    for name in ("z", "m", "a"):
        made.add_node(name, adds(name)).add_edge(START, name)
    made.add_conditional_edges(START, lambda state: [Send("a", {}), Send("a", {})], ["a"])
    graph = made.compile(saver, interrupt_before="*")
    drive.invoke(graph, {"words": []}, thread())
    state = drive.get_state(graph, thread())
    assert state.next == ("a", "a", "z", "m", "a")
    assert state.tasks[1].path == ("__pregel_push", 1, False)
    assert state.tasks[2].path == ("__pregel_pull", "z")


def test_an_error_is_shown_as_text(drive: Any, saver: Any, thread: Any) -> None:
    """The task that failed carries the error; its finished sibling its result."""
    graph = fork(y=fails_once()).compile(saver)
    with pytest.raises(ValueError, match="not yet"):
        drive.invoke(graph, {"words": []}, thread())
    state = drive.get_state(graph, thread())
    assert state.next == ("y",)
    assert [t.error for t in state.tasks] == [None, "ValueError('not yet')"]


def test_values_of_computed_and_private_keys(drive: Any, saver: Any, thread: Any) -> None:
    """A key that was never written is absent; one without a reducer is there once it is."""

    class Two(TypedDict, total=False):
        left: int
        right: int

    made: StateGraph[Any] = StateGraph(Two)
    graph = made.add_node("n", lambda state: {"left": 1}).add_edge(START, "n").compile(saver)
    drive.invoke(graph, {}, thread())
    assert drive.get_state(graph, thread()).values == {"left": 1}


def test_a_state_of_one_value_is_shown_bare(drive: Any, saver: Any, thread: Any) -> None:
    """A graph whose state is no dict has values and results that are none either."""
    made: StateGraph[Any] = StateGraph(Annotated[list, lambda old, new: old + new])
    graph = made.add_node("n", lambda state: ["n"]).add_edge(START, "n").compile(saver)
    drive.invoke(graph, ["in"], thread())
    states = drive.history(graph, thread())
    assert [s.values for s in states] == [["in", "n"], ["in"], []]
    assert [t.result for s in states for t in s.tasks] == [["n"], ["in"]]


# questions --------------------------------------------------------------------------------------


def test_open_questions_are_shown(drive: Any, saver: Any, thread: Any) -> None:
    """The question with its task, and again for the whole thread."""
    graph = chain("a", "b", b=asks).compile(saver)
    result = drive.invoke(graph, {"words": []}, thread())
    state = drive.get_state(graph, thread())
    assert state.interrupts == tuple(result["__interrupt__"]) == state.tasks[0].interrupts
    assert state.next == ("b",)


def test_only_unanswered_questions_are_open(drive: Any, saver: Any, thread: Any) -> None:
    """After the first of two answers the thread shows the second question alone."""

    def twice(state: Any) -> Any:
        return {"words": [interrupt("one"), interrupt("two")]}

    graph = chain("n", n=twice).compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    drive.invoke(graph, Command(resume="1"), thread())
    state = drive.get_state(graph, thread())
    assert [q.value for q in state.interrupts] == ["two"]
    assert state.next == ("n",)


def test_an_answered_task_shows_no_question(drive: Any, saver: Any, thread: Any) -> None:
    """Of two paused tasks, the one that was answered has its result; the other still asks."""
    graph = fork(x=asks, y=asks).compile(saver)
    asked = drive.invoke(graph, {"words": []}, thread())["__interrupt__"]
    drive.invoke(graph, Command(resume={asked[0].id: "yes"}), thread())
    state = drive.get_state(graph, thread())
    assert [(t.name, t.result, len(t.interrupts)) for t in state.tasks] == [
        ("x", {"words": ["yes"]}, 0),
        ("y", None, 1),
    ]
    assert state.values == {"words": ["yes"]}


def test_a_failure_after_the_answer_closes_the_question(drive: Any, saver: Any, thread: Any) -> None:
    """A task that was answered and then failed shows the error, and no open question."""

    def node(state: Any) -> Any:
        interrupt("which?")
        raise ValueError("after all")

    graph = chain("n", n=node).compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    with pytest.raises(ValueError, match="after all"):
        drive.invoke(graph, Command(resume="yes"), thread())
    state = drive.get_state(graph, thread())
    assert state.tasks[0].error == "ValueError('after all')"
    assert state.interrupts == ()


def test_a_question_after_a_failure_replaces_it(drive: Any, saver: Any, thread: Any) -> None:
    """A task that failed, was run again and now asks, shows the question alone."""
    ran: list[int] = []

    def node(state: Any) -> Any:
        ran.append(1)
        if len(ran) == 1:
            raise ValueError("first")
        return asks(state)

    graph = chain("n", n=node).compile(saver)
    with pytest.raises(ValueError, match="first"):
        drive.invoke(graph, {"words": []}, thread())
    drive.invoke(graph, None, thread())
    state = drive.get_state(graph, thread())
    assert state.tasks[0].error is None
    assert len(state.interrupts) == 1


def test_what_a_command_added_is_part_of_the_step(drive: Any, saver: Any, thread: Any) -> None:
    """An update and a goto given beside a paused task show in values, next and questions."""
    made = chain("a", a=asks).add_node("b", asks)
    graph = made.compile(saver)
    drive.invoke(graph, {"words": ["in"]}, thread())
    drive.invoke(graph, Command(update={"words": ["more"]}, goto="b"), thread())
    state = drive.get_state(graph, thread())
    assert state.values == {"words": ["in", "more"]}
    assert state.next == ("a", "b")
    assert len(state.interrupts) == 2


# functions --------------------------------------------------------------------------------------


@task
def double(n: int) -> int:
    return 2 * n


def test_an_entrypoint_shows_what_it_returned(drive: Any, saver: Any, thread: Any) -> None:
    """The value that was returned, not the one that was saved; None before the first return."""

    @entrypoint(checkpointer=saver)
    def flow(n: int, *, previous: Any) -> Any:
        return entrypoint.final(value=interrupt("add?") + n, save="saved")

    drive.invoke(flow, 1, thread())
    paused = drive.get_state(flow, thread())
    assert (paused.values, paused.next) == (None, ("flow",))
    drive.invoke(flow, Command(resume=2), thread())
    done = drive.get_state(flow, thread())
    assert (done.values, done.next) == (3, ())
    drive.invoke(flow, 1, thread())
    assert drive.get_state(flow, thread()).values == 3


def test_looking_at_an_own_thread_from_inside(drive: Any, saver: Any, thread: Any) -> None:
    """A task may read the thread that its run holds."""
    seen: list[Any] = []

    @task
    def look() -> None:
        seen.append(flow.get_state(thread()))

    @entrypoint(checkpointer=saver)
    def flow(n: int) -> int:
        double(n).result()
        look().result()
        return n

    drive.invoke(flow, 1, thread())
    assert seen[0].next == ("flow",)
    assert [(call.name, call.state) for call in seen[0].tasks[0].calls] == [("double", "finished")]
