"""Whatever lines run side by side in a body, and wherever they stop: each keeps what it had.

A body starts lines that begin with equal calls and go on each by itself: they call, ask, catch
refusals, repeat themselves, and start tasks with more such lines. It is stopped by failures
while other lines are under way, and resumed with another timing until it is done.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.func import entrypoint, task
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}

EQUAL = ("equal", 0)
alone = st.sampled_from([("own",), ("refused",), ("ask",)])


def families(steps, beginnings):
    """Lines that share a beginning, and go on each by itself; some are copies of each other."""
    rests = st.lists(st.lists(steps, max_size=4), min_size=1, max_size=3)
    lines = st.tuples(st.sampled_from(beginnings), rests, st.lists(st.integers(0, 2), min_size=2, max_size=4))
    return lines.map(lambda t: [[*t[0], *t[1][i % len(t[1])]] for i in t[2]])


def longer(steps):
    body = st.lists(st.one_of(st.just(EQUAL), steps), max_size=4)
    lines = families(steps, [[EQUAL]])
    return st.one_of(
        st.builds(lambda s: ("nest", s), body),
        st.builds(lambda s: ("nest", [("lines", s)]), lines),
        st.builds(lambda s, n: ("again", s, n), st.lists(steps, max_size=3), st.integers(2, 3)),
    )


def programs(*beginnings):
    return families(st.recursive(alone, longer, max_leaves=6), beginnings)


plans = st.lists(st.integers(1, 25), max_size=4)


class Stopped(Exception):
    """What stops an attempt."""


class World:
    """Stops attempts as planned, gives each call a result of its own, and keeps what was seen."""

    def __init__(self, plan, seed):
        self.plan = list(plan)
        self.rng = random.Random(seed)
        self.numbers = itertools.count()
        self.left = 0
        self.seen = {}

    def event(self):
        self.left -= 1
        if self.left == 0:
            raise Stopped

    def see(self, site, value):
        """The code at this place was given a value, and goes on: it gets that one always."""
        assert self.seen.setdefault(site, value) == value, f"{site}: {self.seen[site]} and {value}"

    async def while_(self, most=4):
        for _ in range(self.rng.randint(0, most)):
            await asyncio.sleep(0)


def workflow_of(world, saver):
    @task
    async def equal(k):
        world.event()
        await world.while_()
        world.event()
        return next(world.numbers)

    @task
    async def own(path, been):
        world.event()
        await world.while_()
        return next(world.numbers)

    @task
    async def refuse(path):
        await world.while_()
        raise KeyError(path)

    @task
    async def ask(path):
        await world.while_()
        return interrupt(path)

    @task
    async def nest(path, steps):
        await world.while_()
        await line(path, steps)
        return next(world.numbers)

    async def step(path, one, been):
        kind = one[0]
        if kind == "equal":
            return await equal(one[1])
        if kind == "own":
            return await own(path, been)
        if kind == "refused":
            try:
                await refuse(path)
            except KeyError as error:
                return error.args[0]
        if kind == "ask":
            return await ask(path)
        if kind == "nest":
            return await nest(path, one[1])
        if kind == "again":
            return [await line(f"{path}.{i}", one[1]) for i in range(one[2])]
        await own(path, been)
        lines = (line(f"{path}/{i}", steps) for i, steps in enumerate(one[1]))
        return await asyncio.gather(*lines)

    async def line(path, steps):
        been = []
        for i, one in enumerate(steps):
            site = f"{path}.{i}"
            value = await step(site, one, been)
            world.see(site, value)
            been.append(value)
        return been

    @entrypoint(checkpointer=saver)
    async def workflow(lines):
        return await asyncio.gather(*(line(str(i), steps) for i, steps in enumerate(lines)))

    return workflow


def run_to_end(world, program, saver):
    workflow = workflow_of(world, saver)

    async def attempts():
        given = program
        for _ in range(150):
            world.left = world.plan.pop(0) if world.plan else 0
            try:
                result = await asyncio.wait_for(workflow.ainvoke(given, T), 20)
            except Stopped:
                given = None
                continue
            if not isinstance(result, dict):
                return
            asked = result["__interrupt__"]
            some = asked[: world.rng.randint(1, len(asked))]
            given = Command(resume={question.id: question.value for question in some})
        raise AssertionError("the program does not come to an end")

    asyncio.run(attempts())


@settings(max_examples=150, deadline=None)
@given(program=programs([EQUAL]), plan=plans, seed=st.integers(0, 1000))
def test_lines_keep_what_they_were_given(program, plan, seed):
    """Lines that begin in the same order get, call by call, what they were given before."""
    world = World(plan, seed)
    run_to_end(world, program, InMemorySaver())


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(program=programs([EQUAL]), plan=plans, seed=st.integers(0, 1000))
def test_lines_keep_what_they_were_given_on_disk(program, plan, seed):
    """A file gives back the same as memory does."""
    with tempfile.TemporaryDirectory() as folder, SqliteSaver.from_conn_string(f"{folder}/db") as saver:
        run_to_end(World(plan, seed), program, saver)
