"""An outcome is a value or an error: what is replayed, and what is tried again."""

import asyncio

import pytest

from perdure.func import entrypoint, task
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}
GO = Command(resume=True)


class Declined(Exception):
    """An error with state of its own, and a constructor that cannot be called with `args`."""

    def __init__(self, *, code):
        super().__init__(f"declined with {code}")
        self.code = code


@pytest.fixture
def ran():
    return []


@pytest.fixture
def broken():
    """Names of the tasks that fail; take one out to mend it."""
    return set()


@pytest.fixture
def work(ran, broken):
    @task
    def work(name):
        ran.append(name)
        if name in broken:
            raise ConnectionError(f"{name} is down")
        return name

    return work


def test_caught_failure_is_replayed(drive, saver, ran):
    """A failure the body caught is not tried again on resume."""

    @task
    def primary():
        ran.append("primary")
        raise ConnectionError("down")

    @task
    def fallback():
        ran.append("fallback")
        return "plan b"

    @entrypoint(checkpointer=saver)
    def workflow(x):
        try:
            result = primary().result()
        except ConnectionError as error:
            result = [fallback().result(), str(error)]
        return [result, interrupt("?")]

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == [["plan b", "down"], True]
    assert ran == ["primary", "fallback"]


def test_replayed_failure_has_its_own_class_and_state(drive, saver):
    """A recorded error comes back as its class, with attributes and notes, unconstructed."""

    @task
    def pay():
        error = Declined(code=51)
        error.add_note("at the till")
        raise error

    @entrypoint(checkpointer=saver)
    def workflow(x):
        try:
            pay().result()
        except Declined as error:
            seen = [str(error), error.code, "at the till" in error.__notes__]
        interrupt("?")
        return seen

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == ["declined with 51", 51, True]


def test_exception_is_replayed_by_exception_too(drive, saver, ran, work, broken):
    """An error read by `.exception()` was delivered, and is replayed."""
    broken.add("a")

    @entrypoint(checkpointer=saver)
    def workflow(x):
        error = work("a").exception()
        interrupt("?")
        return type(error).__name__

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == "ConnectionError"
    assert ran == ["a"]


def test_failure_that_ended_the_run_is_tried_again(drive, saver, ran, work, broken):
    """On resume the failed call runs again, the finished ones do not."""
    broken.add("b")

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [work("a").result(), work("b").result()]

    with pytest.raises(ConnectionError):
        drive.invoke(workflow, 1, T)
    broken.clear()
    assert drive.invoke(workflow, None, T) == ["a", "b"]
    assert ran == ["a", "b", "b"]


def test_failure_named_as_cause_is_tried_again(drive, saver, ran, work, broken):
    """An error wrapped with `raise ... from` names the call to try again."""
    broken.add("b")

    @entrypoint(checkpointer=saver)
    def workflow(x):
        try:
            return work("b").result()
        except ConnectionError as error:
            raise RuntimeError("wrapped") from error

    with pytest.raises(RuntimeError, match="wrapped"):
        drive.invoke(workflow, 1, T)
    broken.clear()
    assert drive.invoke(workflow, None, T) == "b"
    assert ran == ["b", "b"]


def test_failure_named_as_context_is_tried_again(drive, saver, ran, work, broken):
    """So does one that was being handled when another error was raised."""
    broken.add("b")

    @entrypoint(checkpointer=saver)
    def workflow(x):
        try:
            return work("b").result()
        except ConnectionError:
            raise RuntimeError("another") from None

    with pytest.raises(RuntimeError, match="another"):
        drive.invoke(workflow, 1, T)
    broken.clear()
    assert drive.invoke(workflow, None, T) == "b"
    assert ran == ["b", "b"]


def test_caught_failure_stays_when_another_ended_the_run(drive, saver, ran, work, broken):
    """Only the failure in the final exception is tried again; the caught one is replayed."""
    broken.update({"caught", "fatal"})

    @entrypoint(checkpointer=saver)
    def workflow(x):
        first = "ok"
        try:
            work("caught").result()
        except ConnectionError:
            first = "caught"
        return [first, work("fatal").result()]

    with pytest.raises(ConnectionError, match="fatal"):
        drive.invoke(workflow, 1, T)
    broken.clear()
    assert drive.invoke(workflow, None, T) == ["caught", "fatal"]
    assert ran == ["caught", "fatal", "fatal"]


def test_when_none_is_named_all_failed_calls_are_tried_again(drive, saver, ran, work, broken):
    """An error of the body's own, with no failed call in it, leaves all of them to try."""
    broken.add("caught")
    defect = [True]

    @entrypoint(checkpointer=saver)
    def workflow(x):
        try:
            first = work("caught").result()
        except ConnectionError:
            first = "caught"
        if defect[0]:
            raise ValueError("body")
        return first

    with pytest.raises(ValueError, match="body"):
        drive.invoke(workflow, 1, T)
    broken.clear()
    defect.clear()
    defect.append(False)
    assert drive.invoke(workflow, None, T) == "caught"
    assert ran == ["caught", "caught"]


def test_members_of_an_exception_group_are_tried_again(saver, ran, broken):
    """A group raised by a TaskGroup names each failed call."""
    broken.update({"a", "b"})

    @task
    async def work(name):
        ran.append(name)
        if name in broken:
            raise ConnectionError(name)
        return name

    async def one(name):
        return await work(name)

    @entrypoint(checkpointer=saver)
    async def workflow(names):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(name)) for name in names]
        return [t.result() for t in tasks]

    async def main():
        with pytest.raises(ExceptionGroup):
            await workflow.ainvoke(["a", "b", "c"], T)
        broken.clear()
        return await workflow.ainvoke(None, T)

    assert asyncio.run(main()) == ["a", "b", "c"]


def test_failures_of_nested_tasks_are_tried_again(drive, saver, ran, work, broken):
    """The failed leaf and its failed parent run again; the leaf's finished sibling does not."""
    broken.add("b")

    @task
    def middle():
        return [work("a").result(), work("b").result()]

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return middle().result()

    with pytest.raises(ConnectionError):
        drive.invoke(workflow, 1, T)
    broken.clear()
    assert drive.invoke(workflow, None, T) == ["a", "b"]
    assert ran == ["a", "b", "b"]


def test_caught_failure_in_a_node_is_replayed(drive, saver, ran, work, broken):
    """A node's caught failures are outcomes as well."""
    from typing import TypedDict

    from perdure.graph import START, StateGraph

    class State(TypedDict, total=False):
        out: list

    broken.add("a")

    def node(state):
        try:
            first = work("a").result()
        except ConnectionError:
            first = "caught"
        return {"out": [first, interrupt("?")]}

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=saver)
    drive.invoke(graph, {}, T)
    broken.clear()
    assert drive.invoke(graph, GO, T) == {"out": ["caught", True]}
    assert ran == ["a"]


def test_cancelled_call_is_no_outcome(saver, ran):
    """A call that its caller cancelled runs again on resume."""

    async def main():
        block = [True]

        @task
        async def slow():
            ran.append("slow")
            if block[0]:
                await asyncio.Event().wait()
            return "done"

        @entrypoint(checkpointer=saver)
        async def workflow(x):
            try:
                result = await asyncio.wait_for(slow(), 0.05)
            except TimeoutError:
                result = "gave up"
            return [result, interrupt("?")]

        await workflow.ainvoke(1, T)
        block[0] = False
        return await workflow.ainvoke(GO, T)

    assert asyncio.run(main()) == ["done", True]
    assert ran == ["slow", "slow"]


def test_unasked_failure_is_tried_again(drive, saver, ran, work, broken):
    """A failure that nobody asked for was not delivered: it runs again on resume."""
    broken.add("a")

    @entrypoint(checkpointer=saver)
    def workflow(x):
        work("a")
        return interrupt("?")

    drive.invoke(workflow, 1, T)
    broken.clear()
    assert drive.invoke(workflow, GO, T) is True
    assert ran == ["a", "a"]


def test_the_error_shows_as_text_on_the_documented_port(drive, saver, work, broken):
    """In `pending_writes` a failed call has an `__error__` entry."""
    broken.add("a")

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return work("a").result()

    with pytest.raises(ConnectionError):
        drive.invoke(workflow, 1, T)
    errors = [w[2] for w in saver.get_tuple(T).pending_writes if w[1] == "__error__"]
    assert any("a is down" in str(error) for error in errors)


def test_replayed_failure_that_ends_the_run_is_tried_again(drive, saver, ran, work, broken):
    """A recorded failure that was caught once, and now ends the run, runs again on the next resume."""
    broken.add("a")
    caught = [True]

    @entrypoint(checkpointer=saver)
    def workflow(x):
        try:
            first = work("a").result()
        except ConnectionError:
            if not caught[0]:
                raise
            first = "caught"
        return [first, interrupt("?")]

    drive.invoke(workflow, 1, T)
    caught[0] = False
    broken.clear()
    with pytest.raises(ConnectionError):
        drive.invoke(workflow, GO, T)
    assert drive.invoke(workflow, None, T) == ["a", True]
    assert ran == ["a", "a"]


def test_failure_in_a_branch_beside_a_pause_is_tried_again(saver, ran, broken):
    """A call that failed while the run was pausing does not fail the thread for ever."""

    @task
    async def ask():
        return interrupt("?")

    @task
    async def work(name):
        ran.append(name)
        if name in broken:
            raise ConnectionError(name)
        return name

    async def branch():
        return await work("a")

    @entrypoint(checkpointer=saver)
    async def workflow(x):
        return await asyncio.gather(ask(), branch())

    async def main():
        broken.add("a")
        given = 1
        for _ in range(5):
            try:
                result = await workflow.ainvoke(given, T)
            except ConnectionError:
                given = None
                continue
            if "__interrupt__" not in result:
                return result
            broken.clear()
            given = GO
        raise AssertionError("the run does not come to an end")

    assert asyncio.run(main()) == [True, "a"]
