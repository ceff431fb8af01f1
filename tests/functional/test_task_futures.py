"""What a task call gives back: a future, at once."""

import asyncio
import concurrent.futures
import gc
import logging
import threading

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.func import entrypoint, task
from perdure.graph import END, START, StateGraph

T = {"configurable": {"thread_id": "t"}}


@task
def square(n):
    return n * n


@task
def fail(text):
    raise ValueError(text)


def test_call_returns_before_the_task_has_run(drive):
    """The body goes on while the task waits for it."""

    @entrypoint()
    def workflow(x):
        gate = threading.Event()

        @task
        def waits():
            assert gate.wait(10)
            return "done"

        future = waits()
        gate.set()
        return future.result()

    assert drive.invoke(workflow, 1) == "done"


def test_calls_run_side_by_side(drive):
    """Two tasks that wait for each other finish."""

    @entrypoint()
    def workflow(x):
        meet = threading.Barrier(2)

        @task
        def come(i):
            meet.wait(10)
            return i

        return [f.result() for f in (come(1), come(2))]

    assert drive.invoke(workflow, 1) == [1, 2]


def test_result_may_be_asked_twice(drive):
    """A future keeps its result."""

    @entrypoint()
    def workflow(x):
        future = square(3)
        return [future.result(), future.result()]

    assert drive.invoke(workflow, 1) == [9, 9]


def test_results_come_in_the_order_asked(drive):
    """Results belong to their calls, whatever finishes first."""

    @entrypoint()
    def workflow(n):
        futures = [square(i) for i in range(n)]
        return [f.result() for f in reversed(futures)]

    assert drive.invoke(workflow, 5) == [16, 9, 4, 1, 0]


def test_done_is_true_after_result(drive):
    """`done()` tells whether the result is there."""

    @entrypoint()
    def workflow(x):
        future = square(2)
        future.result()
        return future.done()

    assert drive.invoke(workflow, 1) is True


def test_exception_is_given_by_exception(drive):
    """`.exception()` returns the error instead of raising it."""

    @entrypoint()
    def workflow(x):
        return [str(fail("broken").exception()), square(1).exception()]

    assert drive.invoke(workflow, 1) == ["broken", None]


def test_result_raises_the_tasks_error(drive):
    """`.result()` raises what the task raised, and the body may catch it."""

    @entrypoint()
    def workflow(x):
        try:
            fail("broken").result()
        except ValueError as error:
            return str(error)

    assert drive.invoke(workflow, 1) == "broken"


def test_uncaught_error_ends_the_run(drive):
    """An error nobody catches comes out of invoke."""

    @entrypoint()
    def workflow(x):
        return fail("broken").result()

    with pytest.raises(ValueError, match="broken"):
        drive.invoke(workflow, 1)


def test_error_note_names_the_task(drive):
    """The exception carries a note with the name of the task it was raised in."""

    @entrypoint()
    def workflow(x):
        return fail("broken").result()

    with pytest.raises(ValueError, match="broken") as caught:
        drive.invoke(workflow, 1)
    assert any("During task with name 'fail'" in note for note in caught.value.__notes__)


def test_result_with_timeout_raises_and_the_task_goes_on(drive):
    """`result(timeout=)` gives up waiting, not the task."""

    @entrypoint()
    def workflow(x):
        gate = threading.Event()

        @task
        def waits():
            assert gate.wait(10)
            return "done"

        future = waits()
        try:
            future.result(timeout=0.01)
        except concurrent.futures.TimeoutError:
            gate.set()
            return future.result(timeout=10)

    assert drive.invoke(workflow, 1) == "done"


def test_done_callback_is_called(drive):
    """`add_done_callback` fires with the future."""

    @entrypoint()
    def workflow(x):
        got = []
        called = threading.Event()
        future = square(3)

        def note(done):
            got.append(done.result())
            called.set()

        future.add_done_callback(note)
        assert called.wait(10)
        return got

    assert drive.invoke(workflow, 1) == [9]


def test_concurrent_wait_and_as_completed(drive):
    """The standard library's helpers accept the futures of a sync body."""

    @entrypoint()
    def workflow(n):
        futures = [square(i) for i in range(n)]
        done, not_done = concurrent.futures.wait(futures, timeout=10)
        order = sorted(f.result() for f in concurrent.futures.as_completed(futures, timeout=10))
        return [len(done), len(not_done), order]

    assert drive.invoke(workflow, 4) == [4, 0, [0, 1, 4, 9]]


def test_wait_on_tasks_nobody_asked_for(drive):
    """`wait` alone, without any `.result()`, sees the tasks finish under one slot."""

    @entrypoint()
    def workflow(n):
        done, _ = concurrent.futures.wait([square(i) for i in range(n)], timeout=10)
        return len(done)

    assert drive.invoke(workflow, 6, {"max_concurrency": 1}) == 6


def test_unawaited_task_still_runs_to_its_end(drive, saver):
    """A task whose future is dropped finishes before the run returns, and is recorded."""
    ran = []

    @task
    def effect(i):
        ran.append(i)
        return i

    @entrypoint(checkpointer=saver)
    def workflow(x):
        effect(1)
        effect(2)
        return "returned"

    assert drive.invoke(workflow, 1, T) == "returned"
    assert sorted(ran) == [1, 2]


def test_unawaited_failure_does_not_fail_the_run_but_is_logged(drive, caplog):
    """An error nobody asked for is told to the log, not to the caller."""

    @entrypoint()
    def workflow(x):
        fail("nobody asked")
        return "returned"

    with caplog.at_level(logging.WARNING):
        assert drive.invoke(workflow, 1) == "returned"
    assert "fail" in caplog.text
    assert "nobody asked" in caplog.text


def test_unawaited_tasks_appear_in_the_stream(drive):
    """Their results are streamed as any other."""

    @entrypoint()
    def workflow(x):
        square(3)
        return "returned"

    chunks = drive.stream(workflow, 1)
    assert {"square": 9} in chunks
    assert {"workflow": "returned"} in chunks


def test_gather(saver):
    """Async futures go into `asyncio.gather`, whatever colour the tasks have."""

    @task
    async def asquare(n):
        await asyncio.sleep(0)
        return n * n

    @entrypoint(checkpointer=saver)
    async def workflow(n):
        return await asyncio.gather(*(asquare(i) for i in range(n)), square(9))

    assert asyncio.run(workflow.ainvoke(3, T)) == [0, 1, 4, 81]


def test_async_calls_run_side_by_side():
    """Two async tasks that wait for each other finish."""

    @task
    async def come(meet, i):
        await meet.wait()
        return i

    @entrypoint()
    async def workflow(x):
        meet = asyncio.Barrier(2)
        return await asyncio.gather(come(meet, 1), come(meet, 2))

    assert asyncio.run(workflow.ainvoke(1)) == [1, 2]


def test_async_call_starts_without_being_awaited():
    """A task runs as soon as the body gives way, awaited or not."""

    @entrypoint()
    async def workflow(x):
        started = asyncio.Event()

        @task
        async def work():
            started.set()

        future = work()
        await asyncio.wait_for(started.wait(), 10)
        await future
        return "done"

    assert asyncio.run(workflow.ainvoke(1)) == "done"


def test_asyncio_wait_and_as_completed():
    """asyncio's helpers accept the futures of an async body."""

    @task
    async def asquare(n):
        return n * n

    @entrypoint()
    async def workflow(n):
        done, pending = await asyncio.wait([asquare(i) for i in range(n)])
        order = sorted([await f for f in asyncio.as_completed([asquare(i) for i in range(n)])])
        return [len(done), len(pending), order]

    assert asyncio.run(workflow.ainvoke(3)) == [3, 0, [0, 1, 4]]


def test_task_group():
    """Tasks can be awaited in a TaskGroup of the user's own."""

    @task
    async def asquare(n):
        return n * n

    async def one(n):
        return await asquare(n)

    @entrypoint()
    async def workflow(n):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(i)) for i in range(n)]
        return [t.result() for t in tasks]

    assert asyncio.run(workflow.ainvoke(3)) == [0, 1, 4]


def test_gather_return_exceptions():
    """Errors of gathered tasks come back as values when asked so."""

    @task
    async def afail(text):
        raise ValueError(text)

    @entrypoint()
    async def workflow(x):
        results = await asyncio.gather(afail("a"), square(2), return_exceptions=True)
        return [str(results[0]), results[1]]

    assert asyncio.run(workflow.ainvoke(1)) == ["a", 4]


def test_wait_for_cancels_the_task():
    """After `asyncio.wait_for` gave up, the task's work stops."""

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(x):
        stopped = asyncio.Event()

        @task
        async def slow():
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        try:
            await asyncio.wait_for(slow(), 0.05)
        except TimeoutError:
            await asyncio.wait_for(stopped.wait(), 10)
            return "stopped"

    assert asyncio.run(workflow.ainvoke(1, T)) == "stopped"


def test_task_called_from_a_sync_function_of_an_async_run():
    """A sync task in an async run gets concurrent futures from its own calls."""

    @task
    def outer(x):
        return square(x).result() + 1

    @entrypoint()
    async def workflow(x):
        return await outer(x)

    assert asyncio.run(workflow.ainvoke(3)) == 10


def test_async_task_called_from_a_sync_task_of_an_async_run():
    """A sync body under ainvoke can wait for an async task with `.result()`."""

    @task
    async def asquare(n):
        await asyncio.sleep(0)
        return n * n

    @entrypoint()
    def workflow(x):
        return asquare(x).result()

    assert asyncio.run(workflow.ainvoke(3)) == 9


def notes(error):
    return " ".join(getattr(error.value, "__notes__", ()))


def test_a_future_taken_for_its_result_is_named(drive):
    """A task that fails on the future of another call says what to pass on instead."""

    @entrypoint()
    def workflow(n):
        return square(square(n)).result()

    with pytest.raises(TypeError) as error:
        drive.invoke(workflow, 2)
    assert "'square' was given the future of a call" in notes(error)


def test_a_future_returned_from_a_workflow_is_named(drive):
    """The refusal says that the future's result is what can be stored."""

    @entrypoint(checkpointer=InMemorySaver())
    def workflow(n):
        return square(n)

    with pytest.raises(Exception, match=r"take that with `\.result\(\)`"):
        drive.invoke(workflow, 2, T)


def test_result_of_an_unfinished_call_in_async_code_says_to_await():
    """Nothing can wait there; the error says what can."""

    @task
    async def later(n):
        return n

    @entrypoint()
    async def workflow(n):
        return later(n).result()

    with pytest.raises(asyncio.InvalidStateError) as error:
        asyncio.run(workflow.ainvoke(1))
    assert "`await task(...)`" in notes(error)


@pytest.mark.parametrize(
    "use",
    [
        lambda future: future + 1,
        lambda future: future["a"],
        lambda future: future.upper(),
        lambda future: len(future),
        lambda future: [item for item in future],  # noqa: C416
    ],
    ids=["operator", "index", "attribute", "len", "iteration"],
)
def test_a_future_used_for_its_result_is_named(use):
    """Whatever the body does with it, the error says how to get the result."""

    @entrypoint()
    def workflow(n):
        return use(square(n))

    with pytest.raises((TypeError, AttributeError)) as error:
        workflow.invoke(2)
    assert "its result is `task(...).result()`" in notes(error)


def test_done_callbacks_may_wait_for_other_calls(drive, saver):
    """Calls whose results become durable together do not wait for each other's callbacks."""

    @entrypoint(checkpointer=saver)
    def workflow(n):
        futures, got = [square(i) for i in range(n)], []
        told = [threading.Event() for _ in futures[1:]]
        for future, following, event in zip(futures, futures[1:], told, strict=False):

            def note(done, following=following, event=event):
                got.append(following.result(timeout=10))
                event.set()

            future.add_done_callback(note)
        assert all(event.wait(10) for event in told)
        return sorted(got)

    for thread in range(20):
        config = {"configurable": {"thread_id": f"{thread}"}}
        assert drive.invoke(workflow, 8, config) == [1, 4, 9, 16, 25, 36, 49]


def test_a_task_waits_for_callbacks_of_calls_that_it_did_not_wait_for(drive, saver):
    """What a callback does has been done when the run returns."""
    got = []

    @entrypoint(checkpointer=saver)
    def workflow(n):
        for i in range(n):
            square(i).add_done_callback(lambda done: got.append(done.result()))

    drive.invoke(workflow, 5, T)
    assert sorted(got) == [0, 1, 4, 9, 16]


def test_a_thread_cannot_leave_an_async_call_behind():
    """A call on the loop that runs cannot be cancelled from a thread; the run waits for its end."""
    begun, ended = threading.Event(), []

    @task
    async def work():
        begun.set()
        await asyncio.sleep(0.05)
        ended.append(True)

    @entrypoint(checkpointer=InMemorySaver())
    def workflow(x):
        future = work()
        assert begun.wait(10)
        return future.cancel()

    async def main():
        return await workflow.ainvoke(1, T), list(ended)

    assert asyncio.run(main()) == (False, [True])


def test_an_async_call_that_a_thread_made_ends_with_its_node(caplog):
    """A node that runs on the loop, for its async edge, fails: what its sync code started is cancelled."""

    begun = threading.Event()

    @task
    async def work():
        begun.set()
        await asyncio.Event().wait()

    def node(state):
        work()
        assert begun.wait(10)
        raise ValueError("broken")

    async def edge(state):
        return END

    builder = StateGraph(dict)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", edge)

    async def main():
        with pytest.raises(ValueError, match="broken"):
            await asyncio.wait_for(builder.compile().ainvoke({}), 10)
        await asyncio.sleep(0)
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(main()) == set()
    gc.collect()
    assert "never retrieved" not in caplog.text
