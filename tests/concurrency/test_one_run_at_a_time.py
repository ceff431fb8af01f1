"""A run holds its thread: what a second caller gets, and when the thread is free again."""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypedDict

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import PerdureError, ThreadBusyError
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}
OTHER = {"configurable": {"thread_id": "other"}}


class Gate:
    """A place in a workflow where it waits until it is let through."""

    def __init__(self):
        self.reached, self.opened = threading.Event(), threading.Event()

    def wait(self):
        self.reached.set()
        assert self.opened.wait(30)


def counter(saver, gate=None, **options):
    """Adds its input to what it returned last; waits at the gate when the input is 1."""

    @entrypoint(checkpointer=saver, **options)
    def workflow(step, *, previous=None):
        if step == 1 and gate is not None:
            gate.wait()
        return (previous or 0) + step

    return workflow


@contextmanager
def running(drive, workflow, gate):
    """A run of the workflow that is at its gate; let through at the end."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(contextvars.copy_context().run, drive.invoke, workflow, 1, T)
        assert gate.reached.wait(30)
        try:
            yield future
        finally:
            gate.opened.set()


def test_second_run_is_refused(drive, saver):
    """While a run holds the thread another one gets ThreadBusyError, at once."""
    gate = Gate()
    workflow = counter(saver, gate)
    with running(drive, workflow, gate) as first:
        with pytest.raises(ThreadBusyError, match="'t'") as caught:
            drive.invoke(workflow, 2, T)
        assert caught.value.thread_id == "t"
    assert first.result() == 1
    assert drive.get_state(workflow, T).values == 1


def test_second_run_waits_when_asked_to(drive, saver):
    """With `on_busy="wait"` it runs after the first, on what the first left."""
    gate = Gate()
    workflow = counter(saver, gate)
    with ThreadPoolExecutor(1) as pool:
        with running(drive, workflow, gate) as first:
            second = pool.submit(drive.invoke, workflow, 2, T, on_busy="wait")
        assert first.result() == 1
        assert second.result() == 3


def test_on_busy_of_the_workflow(drive, saver):
    """`on_busy` given to the entrypoint counts for its runs."""
    gate = Gate()
    workflow = counter(saver, gate, on_busy="wait")
    with ThreadPoolExecutor(1) as pool:
        with running(drive, workflow, gate):
            second = pool.submit(drive.invoke, workflow, 2, T)
        assert second.result() == 3


def test_unknown_on_busy_is_refused(drive, saver):
    """A misspelt choice is an error."""
    with pytest.raises(ValueError, match="wiat"):
        drive.invoke(counter(saver), 1, T, on_busy="wiat")


def test_many_callers_lose_nothing(drive, saver):
    """Twelve waiting callers make a counter of twelve."""
    workflow = counter(saver, on_busy="wait")
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda i: drive.invoke(workflow, 2, T), range(12)))
    assert sorted(results) == list(range(2, 26, 2))


def test_every_caller_is_served_or_refused(drive, saver):
    """Without waiting the counter equals the number of runs that succeeded."""
    workflow = counter(saver)

    def attempt(i):
        try:
            return drive.invoke(workflow, 2, T) and 1
        except ThreadBusyError:
            return 0

    with ThreadPoolExecutor(6) as pool:
        succeeded = sum(pool.map(attempt, range(12)))
    assert drive.get_state(workflow, T).values == 2 * succeeded
    assert succeeded >= 1


def test_other_threads_are_free(drive, saver):
    """A run holds its own thread only."""
    gate = Gate()
    workflow = counter(saver, gate)
    with running(drive, workflow, gate):
        assert drive.invoke(workflow, 2, OTHER) == 2


def test_thread_ids_are_compared_as_text(drive, saver):
    """The number 5 and the text "5" are one thread."""
    gate = Gate()
    workflow = counter(saver, gate)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(drive.invoke, workflow, 1, {"configurable": {"thread_id": 5}})
        assert gate.reached.wait(30)
        try:
            with pytest.raises(ThreadBusyError):
                drive.invoke(workflow, 2, {"configurable": {"thread_id": "5"}})
        finally:
            gate.opened.set()
        assert first.result() == 1


def test_reading_needs_no_lease(drive, saver):
    """State and history can be read while a run goes on."""
    gate = Gate()
    workflow = counter(saver, gate)
    drive.invoke(workflow, 2, T)
    with running(drive, workflow, gate):
        assert drive.get_state(workflow, T).next == ("workflow",)
        assert len(drive.history(workflow, T)) == 3


def test_update_state_from_outside_is_refused(drive, saver):
    """What would change the thread under a run is refused."""
    gate = Gate()
    workflow = counter(saver, gate)
    with running(drive, workflow, gate) as first, pytest.raises(ThreadBusyError):
        drive.update_state(workflow, T, 100)
    assert first.result() == 1


@pytest.mark.parametrize("end", ["return", "error", "pause"])
def test_thread_is_free_after_every_end(drive, saver, end):
    """However a run ends, the next one may start."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        if x == "error":
            raise ValueError(x)
        return interrupt("?") if x == "pause" else x

    try:
        drive.invoke(workflow, end, T)
    except ValueError:
        pass
    assert drive.invoke(workflow, "next", T) == "next"


def test_closed_stream_frees_the_thread(saver):
    """A reader that stops early leaves a thread that can be used."""
    workflow = counter(saver)

    @task
    def step(i):
        return i

    @entrypoint(checkpointer=saver)
    def long(x):
        return [step(i).result() for i in range(3)]

    stream = long.stream(1, OTHER)
    next(stream)
    stream.close()
    assert long.invoke(2, OTHER) == [0, 1, 2]
    assert workflow.invoke(2, T) == 2


def test_two_answers_at_the_same_instant(drive, saver):
    """One answer wins; the other caller is told; the workflow goes on once."""
    went_on = []

    @entrypoint(checkpointer=saver)
    def workflow(x):
        answer = interrupt("?")
        went_on.append(answer)
        return answer

    for i in range(10):
        config = {"configurable": {"thread_id": f"t{i}"}}
        went_on.clear()
        drive.invoke(workflow, 1, config)
        start = threading.Barrier(2)

        def answer(name, config=config, start=start):
            start.wait(30)
            try:
                return drive.invoke(workflow, Command(resume=name), config)
            except PerdureError:
                return None

        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(answer, ["a", "b"]))
        assert len(went_on) == 1
        assert sorted(results, key=str) == sorted([went_on[0], None], key=str)


def test_two_savers_on_one_file_exclude_each_other(drive, tmp_path):
    """The lease lies in the file, not in the saver object."""
    path = str(tmp_path / "threads.db")
    gate = Gate()
    with SqliteSaver.from_conn_string(path) as one, SqliteSaver.from_conn_string(path) as two:
        with running(drive, counter(one, gate), gate) as first, pytest.raises(ThreadBusyError):
            drive.invoke(counter(two), 2, T)
        assert first.result() == 1
        assert drive.invoke(counter(two), 2, T) == 3


def test_nested_runs_re_enter(drive, saver):
    """A child run on its parent's thread is part of the parent's."""

    @entrypoint()
    def child(x):
        return x + 1

    @entrypoint(checkpointer=saver)
    def parent(x):
        return child.invoke(x) + child.invoke(x)

    assert drive.invoke(parent, 1, T) == 4


def test_update_state_inside_a_run_re_enters(saver):
    """A node may update another thread, or its own, without being refused."""

    class State(TypedDict, total=False):
        n: int

    builder = StateGraph(State)

    def node(state):
        graph.update_state(OTHER, {"n": 5}, as_node="node")
        return {"n": 1}

    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=saver)
    assert graph.invoke({"n": 0}, T) == {"n": 1}
    assert graph.get_state(OTHER).values == {"n": 5}


def test_child_on_the_parents_own_thread_is_not_a_deadlock(drive, saver):
    """Naming the parent's thread in a child call re-enters, or is refused: it never hangs."""

    @entrypoint(checkpointer=saver)
    def child(x):
        return x + 1

    @entrypoint(checkpointer=saver)
    def parent(x):
        try:
            return child.invoke(x, T, on_busy="wait")
        except ThreadBusyError:
            return "refused"

    assert drive.invoke(parent, 1, T) in (2, "refused")


def test_async_callers_on_one_loop():
    """Two coroutines on one thread: the second is refused, or waits without blocking the loop."""

    async def main():
        reached, may_go = asyncio.Event(), asyncio.Event()

        @entrypoint(checkpointer=InMemorySaver())
        async def workflow(step, *, previous=None):
            if step == 1:
                reached.set()
                await may_go.wait()
            return (previous or 0) + step

        first = asyncio.create_task(workflow.ainvoke(1, T))
        await reached.wait()
        with pytest.raises(ThreadBusyError):
            await workflow.ainvoke(2, T)
        second = asyncio.create_task(workflow.ainvoke(2, T, on_busy="wait"))
        await asyncio.sleep(0)
        may_go.set()
        return await asyncio.gather(first, second)

    assert asyncio.run(main()) == [1, 3]


def test_cancelled_run_frees_the_thread(saver):
    """After a cancelled ainvoke the thread can be used."""

    async def main():
        reached = asyncio.Event()

        @entrypoint(checkpointer=saver)
        async def workflow(x):
            if x == 1:
                reached.set()
                await asyncio.Event().wait()
            return x

        call = asyncio.create_task(workflow.ainvoke(1, T))
        await reached.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return await workflow.ainvoke(2, T)

    assert asyncio.run(main()) == 2


def test_cancelled_run_keeps_the_thread_until_its_last_worker_ended(saver):
    """A sync task that cannot be killed still holds the thread after the cancel."""

    async def main():
        gate = Gate()

        @task
        def stubborn():
            gate.wait()

        @entrypoint(checkpointer=saver)
        async def workflow(x):
            if x == 1:
                await stubborn()
            return x

        call = asyncio.create_task(workflow.ainvoke(1, T))
        await asyncio.to_thread(gate.reached.wait, 30)
        call.cancel()
        await asyncio.sleep(0)
        with pytest.raises(ThreadBusyError):
            await workflow.ainvoke(2, T)
        gate.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        return await workflow.ainvoke(2, T, on_busy="wait")

    assert asyncio.run(main()) == 2


def test_nothing_of_a_lease_shows(drive, saver):
    """Metadata and pending writes hold nothing about who held the thread."""
    drive.invoke(counter(saver), 2, T)
    stored = saver.get_tuple(T)
    assert not any("lease" in key or "owner" in key for key in stored.metadata)
    assert list(stored.pending_writes or []) == []


def test_many_threads_at_once(drive, saver):
    """Runs on different threads do not disturb each other."""
    workflow = counter(saver)

    def work(name):
        config = {"configurable": {"thread_id": name}}
        return [drive.invoke(workflow, 2, config) for _ in range(5)]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, [f"t{i}" for i in range(16)]))
    assert results == [[2, 4, 6, 8, 10]] * 16
