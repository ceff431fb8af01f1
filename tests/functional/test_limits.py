"""How far and how wide a run may go."""

import asyncio
import gc
import threading
import time
from concurrent.futures import CancelledError, as_completed
from typing import TypedDict

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.engine.workers import DEFAULT_LIMIT, Once, Workers
from perdure.errors import GraphRecursionError
from perdure.func import entrypoint, task
from perdure.graph import END, START, StateGraph

T = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    n: int


def endless(saver=None, until=None):
    """A graph whose node counts and goes round, for ever or until a number."""

    def count(state):
        return {"n": state.get("n", 0) + 1}

    def route(state):
        return "__end__" if until is not None and state["n"] >= until else "count"

    builder = StateGraph(State)
    builder.add_node("count", count)
    builder.add_edge(START, "count")
    builder.add_conditional_edges("count", route, ["count", "__end__"])
    return builder.compile(checkpointer=saver)


def test_a_run_below_the_limit_ends_normally(drive):
    """A fresh run may end anywhere before its last allowed superstep."""
    assert drive.invoke(endless(until=2), {}, {"recursion_limit": 3}) == {"n": 2}


def test_reaching_the_limit_raises(drive):
    """A run that uses up its supersteps raises, and the text names the limit."""
    with pytest.raises(GraphRecursionError, match="Recursion limit of 3 reached"):
        drive.invoke(endless(), {}, {"recursion_limit": 3})


def test_as_many_node_supersteps_run_as_the_limit_says(drive, saver):
    """A fresh run gets exactly the limit's number of supersteps, and all are saved."""
    graph = endless(saver)
    with pytest.raises(GraphRecursionError):
        drive.invoke(graph, {}, {**T, "recursion_limit": 3})
    assert drive.get_state(graph, T).values == {"n": 3}


def test_recursion_error_is_a_python_recursion_error(drive):
    """Callers may catch the built-in class."""
    with pytest.raises(RecursionError):
        drive.invoke(endless(), {}, {"recursion_limit": 2})


@pytest.mark.parametrize("limit", [0, -1])
def test_limit_must_be_positive(drive, limit):
    """A limit below one is refused."""
    with pytest.raises(ValueError, match="recursion_limit must be at least 1"):
        drive.invoke(endless(), {}, {"recursion_limit": limit})


def test_resume_after_the_limit_has_a_new_budget(drive, saver):
    """What was reached is saved; `invoke(None)` goes on with as many supersteps again."""
    graph = endless(saver, until=7)
    with pytest.raises(GraphRecursionError):
        drive.invoke(graph, {}, {**T, "recursion_limit": 3})
    assert drive.get_state(graph, T).values == {"n": 3}
    with pytest.raises(GraphRecursionError):
        drive.invoke(graph, None, {**T, "recursion_limit": 3})
    assert drive.get_state(graph, T).values == {"n": 6}
    assert drive.invoke(graph, None, {**T, "recursion_limit": 3}) == {"n": 7}


def test_an_entrypoint_needs_one_step(drive):
    """Calls of an entrypoint are no supersteps."""

    @task
    def inc(x):
        return x + 1

    @entrypoint()
    def workflow(x):
        for _ in range(20):
            x = inc(x).result()
        return x

    assert drive.invoke(workflow, 0, {"recursion_limit": 1}) == 20


def test_a_subgraph_has_a_budget_of_its_own(drive):
    """A child's supersteps do not count for the parent."""
    child = endless(until=3)
    builder = StateGraph(State)
    builder.add_node("child", lambda state: child.invoke({}))
    builder.add_edge(START, "child")
    assert drive.invoke(builder.compile(), {}, {"recursion_limit": 4}) == {"n": 3}


def test_config_of_a_node_shows_the_limit_only_if_given(drive):
    """Where the caller gave no limit, the node's config has none."""
    seen = []

    def look(state, config):
        seen.append(config.get("recursion_limit"))
        return {}

    builder = StateGraph(State)
    builder.add_node("look", look)
    builder.add_edge(START, "look")
    graph = builder.compile()
    drive.invoke(graph, {"n": 1})
    drive.invoke(graph, {"n": 1}, {"recursion_limit": 9})
    assert seen == [None, 9]


def watched():
    """A task that notes how many of its kind run at once, and the notes."""
    lock, running, most = threading.Lock(), [0], [0]

    @task
    def work(i):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        for _ in range(1000):
            pass
        with lock:
            running[0] -= 1
        return i

    return work, most


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_max_concurrency_bounds_tasks(drive, limit):
    """No more tasks run at once than allowed, and all of them finish."""
    work, most = watched()

    @entrypoint()
    def workflow(n):
        return sum(f.result() for f in [work(i) for i in range(n)])

    assert drive.invoke(workflow, 20, {"max_concurrency": limit}) == 190
    assert most[0] <= limit


def test_max_concurrency_bounds_nodes(drive):
    """Nodes of one superstep keep to the limit as well."""
    lock, running, most = threading.Lock(), [0], [0]

    def node(state):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        for _ in range(1000):
            pass
        with lock:
            running[0] -= 1
        return {}

    builder = StateGraph(State)
    for i in range(8):
        builder.add_node(f"n{i}", node)
        builder.add_edge(START, f"n{i}")
    drive.invoke(builder.compile(), {"n": 1}, {"max_concurrency": 2})
    assert most[0] <= 2


@pytest.mark.parametrize("limit", [1, 2])
def test_waiting_parents_hold_no_slot(drive, saver, limit):
    """Tasks that wait for tasks finish under the narrowest limit."""

    @task
    def child(x):
        return x + 1

    @task
    def parent(x):
        return child(x).result() * 10

    @entrypoint(checkpointer=saver)
    def workflow(n):
        return [f.result() for f in [parent(i) for i in range(n)]]

    result = drive.invoke(workflow, 4, {**T, "max_concurrency": limit})
    assert result == [10, 20, 30, 40]


def test_async_waiting_parents_hold_no_slot():
    """The same for async tasks."""

    @task
    async def child(x):
        return x + 1

    @task
    async def parent(x):
        return await child(x) * 10

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(n):
        return await asyncio.gather(*(parent(i) for i in range(n)))

    result = asyncio.run(workflow.ainvoke(4, {**T, "max_concurrency": 1}))
    assert result == [10, 20, 30, 40]


@pytest.fixture
def counted():
    """An async task, and the list of how many ran at once whenever one began."""
    running, at_once = 0, []

    @task
    async def work(i):
        nonlocal running
        running += 1
        at_once.append(running)
        await asyncio.sleep(0)
        running -= 1
        return i

    return work, at_once


def test_max_concurrency_bounds_async_tasks(counted):
    """No more async tasks run at once than allowed."""
    work, at_once = counted

    @entrypoint()
    async def workflow(n):
        await asyncio.gather(*(work(i) for i in range(n)))

    asyncio.run(workflow.ainvoke(20, {"max_concurrency": 3}))
    assert (len(at_once), max(at_once)) == (20, 3)


def test_streams_finish_under_one_slot(drive):
    """A listener takes no slot either."""

    @task
    def work(i):
        return i

    @entrypoint()
    def workflow(n):
        return [f.result() for f in [work(i) for i in range(n)]]

    chunks = drive.stream(workflow, 3, {"max_concurrency": 1}, stream_mode="values")
    assert chunks == [[0, 1, 2]]


def test_many_small_tasks_take_few_threads():
    """A thread that has ended a task takes the next one: no thread is started for each task."""

    @task
    def who(i):
        return threading.get_ident()

    @entrypoint(checkpointer=InMemorySaver())
    def workflow(n):
        return len({future.result() for future in [who(i) for i in range(n)]})

    for run in range(5):
        assert workflow.invoke(600, {"configurable": {"thread_id": f"{run}"}}) <= DEFAULT_LIMIT + 1


def test_a_sync_node_with_an_async_edge_gives_its_slot_back():
    """Under a limit the next superstep may begin."""

    async def more(state):
        return "node" if state["n"] < 3 else END

    builder = StateGraph(State)
    builder.add_node("node", lambda state: {"n": state["n"] + 1})
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", more)
    workflow = builder.compile()

    async def main():
        return await asyncio.wait_for(workflow.ainvoke({"n": 0}, {"max_concurrency": 1}), 20)

    assert asyncio.run(main()) == {"n": 3}


def test_max_concurrency_bounds_async_tasks_of_sync_code(counted):
    """Calls that a thread makes of async tasks count as those that a coroutine makes."""
    work, at_once = counted

    @entrypoint()
    def workflow(n):
        return sum(future.result() for future in [work(i) for i in range(n)])

    assert asyncio.run(workflow.ainvoke(20, {"max_concurrency": 2})) == 190
    assert len(at_once) == 20
    assert max(at_once) <= 2


def test_a_waiter_for_a_slot_learns_of_a_cancel():
    """Who waits for a call that has no slot yet need not wait on when the call is cancelled."""
    begun, waits, learned = threading.Event(), threading.Event(), threading.Event()

    @task
    def hold():
        begun.set()
        return learned.wait(10)

    @task
    def queued():
        raise AssertionError("was cancelled")

    @entrypoint()
    def workflow(x):
        held = hold()
        assert begun.wait(10)
        future = queued()

        def ask():
            waits.set()
            with pytest.raises(CancelledError):
                future.result()
            learned.set()

        asking = threading.Thread(target=ask)
        asking.start()
        assert waits.wait(10)
        time.sleep(0.02)  # It is about to wait for a slot.
        assert future.cancel()
        asking.join()
        return held.result()

    assert workflow.invoke(1, {"max_concurrency": 1}) is True


def test_a_waiter_for_a_slot_learns_that_another_thread_runs_the_call():
    """Also while the queue has not been looked at since, because no slot is free."""
    workers, work = Workers(1), Once()
    workers.take()
    workers.queue.append(work)
    assert work.claim()
    assert workers.steal(work) is None


def test_calls_dropped_by_a_timed_out_nested_run_give_their_slots_back():
    """A call that was never begun, because its run had ended, takes no slot away from the runs above."""
    over = threading.Event()

    @task
    def work(i):
        return i

    def calls(state):
        for i in range(DEFAULT_LIMIT):
            work(i)
        assert over.wait(10)
        return {}

    def waits(state):
        assert over.wait(10)
        time.sleep(0.2)  # Holds its slot until the calls have been dropped.
        return {}

    builder = StateGraph(State)
    for name, node in {"calls": calls, **{f"n{i}": waits for i in range(DEFAULT_LIMIT)}}.items():
        builder.add_node(name, node)
        builder.add_edge(START, name)
    child = builder.compile()
    child.step_timeout = 0.1

    @entrypoint()
    def workflow(x):
        threading.Timer(0.3, over.set).start()
        with pytest.raises(TimeoutError):
            child.invoke({"n": 1})
        return sorted(future.result() for future in as_completed([work(i) for i in range(4)], timeout=10))

    assert workflow.invoke(1) == [0, 1, 2, 3]


@pytest.mark.parametrize("home", [None, InMemorySaver], ids=["no saver", "memory"])
@pytest.mark.parametrize("together", [False, True], ids=["one by one", "together"])
def test_a_call_leaves_no_garbage(home, together):
    """What a finished call was made of goes at once, and waits for no garbage collector."""

    @task
    def work(i):
        return i

    @entrypoint(checkpointer=home() if home else None)
    def workflow(n):
        if together:
            return sum(future.result() for future in [work(i) for i in range(n)])
        return sum(work(i).result() for i in range(n))

    workflow.invoke(10, T)
    gc.collect()
    gc.disable()
    try:
        workflow.invoke(200, T)
        assert gc.collect() < 200
    finally:
        gc.enable()
