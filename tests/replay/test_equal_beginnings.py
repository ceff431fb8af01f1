"""Lines that begin with equal calls: which is which, after a stop and with another timing."""

import asyncio
import itertools
from collections import Counter

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.func import entrypoint, task
from perdure.types import Command, RetryPolicy, interrupt

T = {"configurable": {"thread_id": "t"}}
GO = Command(resume=True)


class Stopped(Exception):
    """What stops an attempt."""


class Bank:
    """Keys that differ each time, charges that count, and lines that begin as late as told."""

    def __init__(self):
        self.late = {}
        self.hang = set()
        self.charged = []
        numbers = itertools.count()

        @task
        async def login():
            return "token"

        @task
        async def key():
            number = next(numbers)
            if number in self.hang:
                await asyncio.Event().wait()
            return number

        @task
        async def account(i):
            return i

        @task
        async def charge(i, key):
            self.charged.append((i, key))
            return [i, key]

        self.login, self.key, self.account, self.charge = login, key, account, charge

    async def turns(self, i):
        for _ in range(self.late.get(i, 0)):
            await asyncio.sleep(0)


def stopped_and_resumed(line, lines, wait_for):
    """Runs lines until one is done, stops, and runs them to their end."""
    stop = [True]

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(x):
        running = [asyncio.ensure_future(line(i)) for i in range(lines)]
        if stop.pop() if stop else False:
            await running[wait_for]
            raise Stopped
        return await asyncio.gather(*running)

    with pytest.raises(Stopped):
        asyncio.run(workflow.ainvoke(1, T))
    return workflow


def test_a_line_does_not_take_the_first_result_of_its_twin():
    """A line that was stopped in its first call makes it again; its twin keeps its result."""
    bank = Bank()
    bank.hang = {0}

    async def line(i):
        return await bank.charge(i, await bank.key())

    workflow = stopped_and_resumed(line, 2, wait_for=1)
    assert asyncio.run(workflow.ainvoke(None, T)) == [[0, 2], [1, 1]]
    assert bank.charged == [(1, 1), (0, 2)]


def test_a_line_does_not_take_what_a_line_that_parted_from_it_has():
    """Once lines have made different calls, equal ones that follow are each line's own."""
    bank = Bank()
    bank.hang = {0}

    async def line(i):
        await bank.login()
        await bank.account(i)
        return await bank.charge(i, await bank.key())

    workflow = stopped_and_resumed(line, 2, wait_for=1)
    assert asyncio.run(workflow.ainvoke(None, T)) == [[0, 2], [1, 1]]
    assert bank.charged == [(1, 1), (0, 2)]


def test_a_line_is_found_beyond_one_of_which_nothing_is_recorded():
    """The third line has finished; the two before it have recorded nothing; it now comes first."""
    fetched, hang = Counter(), {0, 1}
    bank = Bank()
    bank.late = {0: 0, 1: 1, 2: 20}
    numbers = itertools.count()

    @task
    async def login():
        if next(numbers) in hang:
            await asyncio.Event().wait()
        return "token"

    @task
    async def fetch(i):
        fetched[i] += 1
        return i

    async def line(i):
        await bank.turns(i)
        await login()
        return await fetch(i)

    workflow = stopped_and_resumed(line, 3, wait_for=2)
    bank.late = {0: 20, 1: 30, 2: 0}
    assert asyncio.run(workflow.ainvoke(None, T)) == [0, 1, 2]
    assert fetched == {0: 1, 1: 1, 2: 1}


def paying(bank, **options):
    async def line(i):
        await bank.turns(i)
        await bank.login()
        await bank.account(i)
        return await bank.charge(i, await bank.key())

    def workflow(end):
        @entrypoint(**options)
        async def workflow(x):
            results = await asyncio.gather(line(0), line(1))
            end()
            return results

        return workflow

    return workflow


def test_a_line_that_is_recognized_keeps_its_equal_calls_too(saver):
    """Lines that begin in another order keep also what both of them have called."""
    bank = Bank()
    bank.late = {1: 5}
    workflow = paying(bank, checkpointer=saver)(lambda: interrupt("?"))

    async def main():
        await workflow.ainvoke(1, T)
        bank.late = {0: 9}
        return await workflow.ainvoke(GO, T)

    assert asyncio.run(main()) == [[0, 0], [1, 1]]
    assert bank.charged == [(0, 0), (1, 1)]


def test_a_retried_body_recognizes_its_lines(saver):
    """So does a second attempt in the same run."""
    bank = Bank()
    bank.late = {1: 5}
    retry = RetryPolicy(initial_interval=0, jitter=False, retry_on=ConnectionError)

    def end():
        if bank.late == {1: 5}:
            bank.late = {0: 9}
            raise ConnectionError

    workflow = paying(bank, checkpointer=saver, retry_policy=retry)(end)
    assert asyncio.run(workflow.ainvoke(1, T)) == [[0, 0], [1, 1]]
    assert bank.charged == [(0, 0), (1, 1)]


def test_the_loser_of_a_race_does_not_win_it_on_replay(saver):
    """A line that was given up in its first call does not get the result of the one that won."""
    numbers = itertools.count()

    @task
    async def guess():
        number = next(numbers)
        if number % 2 == 0:
            await asyncio.Event().wait()
        return number

    async def line(i):
        return [i, await guess()]

    @entrypoint(checkpointer=saver)
    async def workflow(x):
        running = [asyncio.ensure_future(line(i)) for i in range(2)]
        done, rest = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for each in rest:
            each.cancel()
        interrupt("?")
        return done.pop().result()

    async def main():
        await workflow.ainvoke(1, T)
        return await workflow.ainvoke(GO, T)

    assert asyncio.run(main()) == [1, 1]


def test_answers_reach_lines_that_begin_in_another_order(saver):
    """Lines that log in and then ask get each the answer to what it asked."""
    bank = Bank()
    order = []

    async def line(i):
        await bank.turns(i)
        await bank.login()
        order.append(i)
        while len(order) < 2:
            await asyncio.sleep(0)
        return interrupt(f"approve {i}?")

    @entrypoint(checkpointer=saver)
    async def workflow(x):
        return await asyncio.gather(line(0), line(1))

    async def main():
        bank.late = {1: 5}
        result = await workflow.ainvoke(1, T)
        bank.late = {0: 9}
        for _ in range(3):
            if not isinstance(result, dict):
                break
            given = {asked.id: f"yes, {asked.value}" for asked in result["__interrupt__"]}
            result = await workflow.ainvoke(Command(resume=given), T)
        return result

    assert asyncio.run(main()) == ["yes, approve 0?", "yes, approve 1?"]


def test_a_key_tells_lines_apart_that_begin_with_equal_calls():
    """In whatever order they begin again, each finds what it had finished, and what it had not."""
    bank = Bank()

    async def line(i):
        await bank.turns(i)
        await bank.login.options(key=f"user {i}")()
        return await bank.charge(i, await bank.key())

    bank.late = {0: 3, 1: 0}
    bank.hang = {1}
    workflow = stopped_and_resumed(line, 2, wait_for=1)
    bank.late = {0: 0, 1: 3}
    assert asyncio.run(workflow.ainvoke(None, T)) == [[0, 2], [1, 0]]
    assert bank.charged == [(1, 0), (0, 2)]
