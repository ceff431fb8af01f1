"""`interrupt()`: what is asked, and what comes back."""

import asyncio
from typing import TypedDict

import pytest

from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.types import Command, Interrupt, interrupt

T = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    a: object
    b: object


def values(result):
    return [i.value for i in result["__interrupt__"]]


def asking_graph(saver, *texts):
    """A graph whose one node asks the questions one after the other."""
    builder = StateGraph(State)
    builder.add_node("ask", lambda state: {"a": [interrupt(text) for text in texts]})
    builder.add_edge(START, "ask")
    return builder.compile(checkpointer=saver)


def test_question_of_a_graph_comes_with_its_state(drive, saver):
    """A paused graph returns its values and the question."""
    result = drive.invoke(asking_graph(saver, "?"), {"b": 1}, T)
    assert result["b"] == 1
    assert "a" not in result
    assert isinstance(result["__interrupt__"], list)
    assert values(result) == ["?"]


def test_interrupt_has_value_and_id(drive, saver):
    """A question carries a value and an id of 32 hex digits."""
    (question,) = drive.invoke(asking_graph(saver, {"x": 1}), {"b": 1}, T)["__interrupt__"]
    assert isinstance(question, Interrupt)
    assert question.value == {"x": 1}
    assert len(question.id) == 32
    assert set(question.id) <= set("0123456789abcdef")


def test_questions_of_one_task_are_answered_in_order(drive, saver):
    """Each resume answers the next question."""
    graph = asking_graph(saver, "one", "two", "three")
    assert values(drive.invoke(graph, {"b": 1}, T)) == ["one"]
    assert values(drive.invoke(graph, Command(resume=1), T)) == ["two"]
    assert values(drive.invoke(graph, Command(resume=2), T)) == ["three"]
    assert drive.invoke(graph, Command(resume=3), T) == {"a": [1, 2, 3], "b": 1}


def test_each_question_has_an_id_of_its_own(drive, saver):
    """Two questions of a task have two ids."""
    graph = asking_graph(saver, "one", "two")
    first = drive.invoke(graph, {"b": 1}, T)["__interrupt__"][0].id
    second = drive.invoke(graph, Command(resume=1), T)["__interrupt__"][0].id
    assert first != second


def test_the_body_runs_again_from_its_top(drive, saver):
    """Code before a question runs on each resume."""
    ran = []

    @entrypoint(checkpointer=saver)
    def workflow(x):
        ran.append(x)
        return [interrupt("one"), interrupt("two")]

    drive.invoke(workflow, 7, T)
    drive.invoke(workflow, Command(resume=1), T)
    assert drive.invoke(workflow, Command(resume=2), T) == [1, 2]
    assert ran == [7, 7, 7]


def test_questions_in_a_loop(drive, saver):
    """A validation loop asks until the answer is right; a task per answer runs once."""
    notes = []

    @task
    def note(answer):
        notes.append(answer)

    @entrypoint(checkpointer=saver)
    def workflow(x):
        prompt = "age?"
        while True:
            answer = interrupt(prompt)
            note(answer).result()
            if isinstance(answer, int):
                return answer
            prompt = f"{answer} is no number"

    assert values(drive.invoke(workflow, 1, T)) == ["age?"]
    assert values(drive.invoke(workflow, Command(resume="x"), T)) == ["x is no number"]
    assert values(drive.invoke(workflow, Command(resume="y"), T)) == ["y is no number"]
    assert drive.invoke(workflow, Command(resume=3), T) == 3
    assert notes == ["x", "y", 3]


def test_question_in_a_task(drive, saver):
    """A task may ask; the entrypoint is what the state shows as open."""

    @task
    def ask(text):
        return interrupt(text)

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [ask("a").result(), ask("b").result()]

    assert values(drive.invoke(workflow, 1, T)) == ["a"]
    state = drive.get_state(workflow, T)
    assert state.next == ("workflow",)
    assert [t.name for t in state.tasks] == ["workflow"]
    assert [i.value for i in state.tasks[0].interrupts] == ["a"]
    assert values(drive.invoke(workflow, Command(resume=1), T)) == ["b"]
    assert drive.invoke(workflow, Command(resume=2), T) == [1, 2]


def test_question_of_a_nested_run_is_shown_once(drive, saver):
    """One pause, one question, however deep it was asked."""

    @entrypoint()
    def child(x):
        return interrupt("deep")

    @entrypoint(checkpointer=saver)
    def parent(x):
        return child.invoke(x)

    assert values(drive.invoke(parent, 1, T)) == ["deep"]
    assert [i.value for i in drive.get_state(parent, T).interrupts] == ["deep"]
    assert drive.invoke(parent, Command(resume="yes"), T) == "yes"


def test_question_of_a_subgraph_node(drive, saver):
    """A graph as a node asks through its parent."""
    builder = StateGraph(State)
    builder.add_node("inner", asking_graph(None, "deep"))
    builder.add_edge(START, "inner")
    graph = builder.compile(checkpointer=saver)
    assert values(drive.invoke(graph, {"b": 1}, T)) == ["deep"]
    assert drive.get_state(graph, T).next == ("inner",)
    assert drive.invoke(graph, Command(resume="yes"), T) == {"a": ["yes"], "b": 1}


def test_state_stays_paused_at_the_second_question(drive, saver):
    """`next` and `interrupts` show the pause at every question."""
    graph = asking_graph(saver, "one", "two")
    drive.invoke(graph, {"b": 1}, T)
    drive.invoke(graph, Command(resume="x"), T)
    state = drive.get_state(graph, T)
    assert state.next == ("ask",)
    assert [i.value for i in state.interrupts] == ["two"]


def test_finished_state_has_no_questions(drive, saver):
    """After the last answer nothing is open."""
    graph = asking_graph(saver, "one")
    drive.invoke(graph, {"b": 1}, T)
    drive.invoke(graph, Command(resume="x"), T)
    state = drive.get_state(graph, T)
    assert state.next == ()
    assert state.interrupts == ()


def test_without_saver_the_run_stops_and_shows_the_question(drive):
    """A question needs no saver to be seen; the run ends there."""
    assert values(drive.invoke(asking_graph(None, "?"), {"b": 1})) == ["?"]


def test_siblings_of_a_pause_finish(drive, saver):
    """A node beside an asking one completes, and its write shows in the last values chunk."""
    ran = []

    def other(state):
        ran.append("other")
        return {"b": "done"}

    builder = StateGraph(State)
    builder.add_node("ask", lambda state: {"a": interrupt("?")})
    builder.add_node("other", other)
    builder.add_edge(START, "ask")
    builder.add_edge(START, "other")
    graph = builder.compile(checkpointer=saver)
    assert values(drive.invoke(graph, {"a": 0}, T)) == ["?"]
    assert drive.get_state(graph, T).next == ("ask",)
    assert drive.invoke(graph, Command(resume=1), T) == {"a": 1, "b": "done"}
    assert ran == ["other"]


def test_updates_shows_one_chunk_for_a_pause(drive, saver):
    """In `updates` an interrupted task is one chunk holding a tuple."""
    chunks = drive.stream(asking_graph(saver, "?"), {"b": 1}, T, stream_mode="updates")
    (pause,) = [c for c in chunks if "__interrupt__" in c]
    assert isinstance(pause["__interrupt__"], tuple)
    assert [i.value for i in pause["__interrupt__"]] == ["?"]


def test_version_2_gives_the_interrupts_apart(drive, saver):
    """`version="v2"` returns an output object with value and interrupts."""
    output = drive.invoke(asking_graph(saver, "?"), {"b": 1}, T, version="v2")
    assert output.value == {"b": 1}
    assert [i.value for i in output.interrupts] == ["?"]


def test_payload_must_be_storable(drive, saver):
    """A question that cannot be stored fails where it was asked."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return interrupt(object())

    with pytest.raises(TypeError):
        drive.invoke(workflow, 1, T)


def test_async_body_asks():
    """The async twin: the pause travels through awaits."""
    from perdure.checkpoint.memory import InMemorySaver

    @task
    async def ask(text):
        return interrupt(text)

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(x):
        return [await ask("a"), interrupt("b")]

    async def main():
        assert values(await workflow.ainvoke(1, T)) == ["a"]
        assert values(await workflow.ainvoke(Command(resume=1), T)) == ["b"]
        return await workflow.ainvoke(Command(resume=2), T)

    assert asyncio.run(main()) == [1, 2]


def test_node_interrupt_is_deprecated_and_asks_each_time(drive, saver):
    """The old exception pauses on every resume, with the placeholder id."""
    from perdure.errors import NodeInterrupt

    def node(state):
        with pytest.warns(DeprecationWarning):
            error = NodeInterrupt("old")
        raise error

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=saver)
    for _ in range(2):
        result = drive.invoke(graph, {"a": 1} if _ == 0 else None, T)
        assert values(result) == ["old"]
