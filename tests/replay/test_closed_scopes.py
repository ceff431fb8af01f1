"""After a signal a scope is closed: nothing starts, nothing is recorded."""

import asyncio

import pytest

from perdure.errors import GraphDrained
from perdure.func import entrypoint, task
from perdure.runtime import RunControl
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}
GO = Command(resume=True)


@pytest.fixture
def ran():
    return []


@pytest.fixture
def work(ran):
    @task
    def work(name):
        ran.append(name)
        return name

    return work


def questions(result):
    return [i.value for i in result["__interrupt__"]]


def test_finally_block_runs_but_its_calls_do_not(drive, saver, ran, work):
    """On a pause `finally` is executed; a task called there starts only at the real end."""
    cleaned = []

    @entrypoint(checkpointer=saver)
    def workflow(x):
        try:
            return interrupt("?")
        finally:
            cleaned.append(1)
            work("cleanup").result()

    assert questions(drive.invoke(workflow, 1, T)) == ["?"]
    assert cleaned == [1]
    assert ran == []
    assert drive.invoke(workflow, GO, T) is True
    assert ran == ["cleanup"]


def test_except_exception_does_not_see_the_pause(drive, saver):
    """A broad error guard lets the pause through."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        try:
            return interrupt("?")
        except Exception:
            return "assumed"

    assert questions(drive.invoke(workflow, 1, T)) == ["?"]
    assert drive.invoke(workflow, GO, T) is True


def test_bare_except_is_noticed(drive, saver):
    """A pause swallowed by `except:` pauses the run all the same."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        try:
            return interrupt("?")
        except:  # noqa: E722
            return "assumed"

    assert questions(drive.invoke(workflow, 1, T)) == ["?"]
    assert drive.invoke(workflow, GO, T) is True


def test_calls_after_a_swallowed_pause_raise_it_again(drive, saver, ran, work):
    """Code that goes on after swallowing cannot start anything."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        try:
            answer = interrupt("?")
        except BaseException:
            answer = "assumed"
        return [answer, work("after").result()]

    assert questions(drive.invoke(workflow, 1, T)) == ["?"]
    assert ran == []
    assert drive.invoke(workflow, GO, T) == [True, "after"]
    assert ran == ["after"]


def test_second_question_after_a_swallowed_pause_is_not_asked(drive, saver):
    """Only the first question of a closed scope counts."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        answers = []
        for text in ("first", "second"):
            try:
                answers.append(interrupt(text))
            except BaseException:
                answers.append(None)
        return answers

    assert questions(drive.invoke(workflow, 1, T)) == ["first"]
    assert questions(drive.invoke(workflow, Command(resume=1), T)) == ["second"]
    assert drive.invoke(workflow, Command(resume=2), T) == [1, 2]


def test_gather_return_exceptions_is_noticed(saver):
    """A pause gathered as a value pauses the run."""

    @task
    async def ask(text):
        return interrupt(text)

    @entrypoint(checkpointer=saver)
    async def workflow(x):
        return await asyncio.gather(ask("a"), return_exceptions=True)

    async def main():
        paused = await workflow.ainvoke(1, T)
        return questions(paused), await workflow.ainvoke(Command(resume="yes"), T)

    assert asyncio.run(main()) == (["a"], ["yes"])


def test_pause_in_a_task_group_is_found_in_the_group(saver):
    """A pause wrapped in an exception group is a pause."""

    @task
    async def ask():
        return interrupt("?")

    async def one():
        return await ask()

    @entrypoint(checkpointer=saver)
    async def workflow(x):
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(one())
        return asked.result()

    async def main():
        paused = await workflow.ainvoke(1, T)
        return questions(paused), await workflow.ainvoke(Command(resume="yes"), T)

    assert asyncio.run(main()) == (["?"], "yes")


def test_swallowed_pause_of_a_task_is_noticed(drive, saver):
    """A body that swallows the pause of a task it asked for pauses too."""

    @task
    def ask():
        return interrupt("?")

    @entrypoint(checkpointer=saver)
    def workflow(x):
        try:
            return ask().result()
        except BaseException:
            return "assumed"

    assert questions(drive.invoke(workflow, 1, T)) == ["?"]
    assert drive.invoke(workflow, GO, T) is True


def test_swallowed_pause_in_a_node_is_noticed(drive, saver):
    """A node that swallows a pause writes nothing and is next again."""
    from typing import TypedDict

    from perdure.graph import START, StateGraph

    class State(TypedDict, total=False):
        out: object

    def node(state):
        try:
            return {"out": interrupt("?")}
        except BaseException:
            return {"out": "assumed"}

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=saver)
    assert questions(drive.invoke(graph, {"out": 0}, T)) == ["?"]
    assert drive.get_state(graph, T).next == ("node",)
    assert drive.invoke(graph, GO, T) == {"out": True}


def test_pause_caught_and_raised_again_is_the_pause(drive, saver, ran):
    """Clean-up code that re-raises works as usual."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        try:
            return interrupt("?")
        except BaseException:
            ran.append("cleaned")
            raise

    assert questions(drive.invoke(workflow, 1, T)) == ["?"]
    assert ran == ["cleaned"]
    assert drive.invoke(workflow, GO, T) is True


def test_error_raised_while_pausing_never_gives_a_result(drive, saver):
    """A context manager's failing exit during a pause still pauses, or raises its own error:
    never a result."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        try:
            return interrupt("?")
        finally:
            raise ValueError("exit failed")

    try:
        result = drive.invoke(workflow, 1, T)
    except ValueError:
        return
    assert questions(result) == ["?"]


def test_what_left_a_root_run_is_an_ordinary_exception(drive, saver, work):
    """Outside of a run a drain is an `Exception` that callers can catch."""
    control = RunControl()
    control.request_drain("stop")

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return work("a").result()

    with pytest.raises(GraphDrained) as caught:
        drive.invoke(workflow, 1, T, control=control)
    assert isinstance(caught.value, Exception)


def test_except_exception_does_not_see_a_drain(drive, saver, ran, work):
    """A broad guard around a call lets the drain through."""
    control = RunControl(between="tasks")

    @entrypoint(checkpointer=saver)
    def workflow(x):
        first = work("a").result()
        control.request_drain("stop")
        try:
            second = work("b").result()
        except Exception:
            second = "assumed"
        return [first, second]

    with pytest.raises(GraphDrained):
        drive.invoke(workflow, 1, T, control=control)
    assert ran == ["a"]
    assert drive.invoke(workflow, None, T) == ["a", "b"]


def test_results_of_unawaited_calls_before_the_pause_are_kept(drive, saver, ran, work):
    """What was started before the pause finishes and is recorded."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        future = work("early")
        answer = interrupt("?")
        return [future.result(), answer]

    drive.invoke(workflow, 1, T)
    assert ran == ["early"]
    assert drive.invoke(workflow, GO, T) == ["early", True]
    assert ran == ["early"]
