"""What is recorded, and what it is found by, does not depend on what was faster."""

import asyncio
import contextvars
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from perdure.func import entrypoint, task
from perdure.types import Command, RetryPolicy, interrupt

T = {"configurable": {"thread_id": "t"}}
GO = Command(resume="go")


async def turns(n):
    """Gives way to the loop n times."""
    for _ in range(n):
        await asyncio.sleep(0)


def others():
    """What runs on the loop besides the caller."""
    return asyncio.all_tasks() - {asyncio.current_task()}


def gathering(saver, ran, nested, first):
    """Gathers three children, each a nested run or a task: the first does what it is told at
    once, the others take a while and are noted."""

    async def child(i):
        if i == 0:
            return first()
        await turns(20)
        ran.append(i)
        return i

    kind = entrypoint()(child) if nested else task(child)
    call = kind.ainvoke if nested else kind

    @entrypoint(checkpointer=saver)
    async def workflow(x):
        return await asyncio.gather(*(call(i) for i in range(3)))

    return workflow


@pytest.mark.parametrize("nested", [False, True], ids=["tasks", "runs"])
def test_pause_waits_for_what_runs_beside_it(saver, nested):
    """A run that pauses returns when everything that it gathered has ended, and keeps it."""
    ran = []
    workflow = gathering(saver, ran, nested, lambda: interrupt("?"))

    async def main():
        await workflow.ainvoke(1, T)
        assert others() == set()
        assert sorted(ran) == [1, 2]
        return await workflow.ainvoke(GO, T)

    assert asyncio.run(main()) == ["go", 1, 2]
    assert sorted(ran) == [1, 2]


@pytest.mark.parametrize("nested", [False, True], ids=["tasks", "runs"])
def test_failure_leaves_nothing_running(saver, nested):
    """A run that fails returns when everything that it gathered has ended."""

    def fail():
        raise ValueError("broken")

    ran = []
    workflow = gathering(saver, ran, nested, fail)

    async def main():
        with pytest.raises(ValueError, match="broken"):
            await workflow.ainvoke(1, T)
        before = list(ran)
        assert others() == set()
        await turns(30)
        assert ran == before

    asyncio.run(main())


def test_threads_whose_first_calls_are_equal_keep_their_own(drive, saver):
    """Branches that begin alike are told apart on replay, in whatever order they come."""
    ran = Counter()
    orders = [[1, 0], [0, 1]]

    @task
    def login():
        return "token"

    @task
    def fetch(i):
        ran[i] += 1
        return i

    @entrypoint(checkpointer=saver)
    def workflow(x):
        order = orders.pop(0)
        turn = {i: threading.Event() for i in order}
        turn[order[0]].set()

        def branch(i):
            assert turn[i].wait(30)
            login().result()
            turn[order[1]].set()
            return fetch(i).result()

        with ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(contextvars.copy_context().run, branch, i) for i in range(2)]
            results = [future.result() for future in futures]
        interrupt("?")
        return results

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == [0, 1]
    assert ran == {0: 1, 1: 1}


def test_answer_by_id_reaches_its_question(saver):
    """Of two coroutines of one body that ask, each gets the answer to what it asked."""
    delays = {"delete?": 9, "send?": 0}

    async def ask(question):
        await turns(delays[question])
        return interrupt(question)

    @entrypoint(checkpointer=saver)
    async def workflow(x):
        return await asyncio.gather(ask("delete?"), ask("send?"))

    def answers(paused):
        return Command(resume={asked.id: f"yes, {asked.value}" for asked in paused["__interrupt__"]})

    async def main():
        result = await workflow.ainvoke(1, T)
        delays.update({"delete?": 0, "send?": 9})
        while isinstance(result, dict):
            result = await workflow.ainvoke(answers(result), T)
        return result

    assert asyncio.run(main()) == ["yes, delete?", "yes, send?"]


def test_retried_body_does_not_repeat_a_call_that_still_runs(drive, saver):
    """A second attempt gets the result of what the first one left running."""
    started, begun, retried = [], threading.Event(), threading.Event()

    @task
    def charge():
        started.append(1)
        begun.set()
        retried.wait(0.05)
        return "paid"

    @entrypoint(
        checkpointer=saver,
        retry_policy=RetryPolicy(initial_interval=0, jitter=False, retry_on=ConnectionError),
    )
    def workflow(x):
        if begun.is_set():
            retried.set()
        payment = charge()
        if not retried.is_set():
            assert begun.wait(30)
            raise ConnectionError("down")
        return payment.result()

    assert drive.invoke(workflow, 1, T) == "paid"
    assert started == [1]
