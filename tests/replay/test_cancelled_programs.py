"""Wherever an async program is cancelled: it ends as if it had never been, and repeats nothing.

The programs are those of `test_any_program`, with tasks that are coroutines and tasks that are
not. Something happens whenever a piece of a program or a task begins, a task ends, or its caller
goes on; at the planned event of each attempt the run is cancelled. It is resumed until done.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.func import entrypoint, task
from perdure.types import Command, interrupt
from replay.test_any_program import programs, value_of

cancels = st.lists(st.integers(1, 25), max_size=6)
threads = count()


class World:
    """Counts bodies that began although their caller had their result; cancels each attempt."""

    def __init__(self, cancels):
        self.cancels = list(cancels)
        self.delivered = set()
        self.repeated = Counter()
        self.lock = threading.Lock()
        self.left, self.cancel = 0, None

    def new_attempt(self, call):
        """The next attempt is this asyncio task, which runs on this loop."""
        loop = asyncio.get_running_loop()
        self.left = self.cancels.pop(0) if self.cancels else 0
        self.cancel = lambda: loop.call_soon_threadsafe(call.cancel)

    def event(self):
        """Something happens; the run is cancelled when its time has come."""
        with self.lock:
            self.left -= 1
            if self.left == 0:
                self.cancel()

    def begin(self, place):
        """The body of the task called at this place begins."""
        self.repeated[place] += place in self.delivered
        self.event()

    def deliver(self, place):
        """The caller of the task at this place goes on with its result."""
        self.delivered.add(place)
        self.event()


def workflow_of(world, saver, delays):
    async def yield_for_a_while():
        for _ in range(next(delays)):
            await asyncio.sleep(0)

    @task
    async def leaf(i, place):
        world.begin(place)
        await yield_for_a_while()
        world.event()
        return ["leaf", i]

    @task
    def plain_leaf(i, place):
        world.begin(place)
        world.event()
        return ["leaf", i]

    @task
    async def refuse(i):
        world.event()
        await yield_for_a_while()
        raise KeyError(i)

    @task
    async def nest(node, place):
        world.begin(place)
        return ["nest", await run(node, (*place, "nest"))]

    async def made(future, place):
        result = await future
        world.deliver(place)
        return result

    async def run(node, place):
        world.event()
        kind, arg = node
        if kind == "leaf":
            return await made((leaf if arg % 2 else plain_leaf)(arg, place), place)
        if kind == "refused":
            try:
                await refuse(arg)
            except KeyError as error:
                return ["refused", error.args[0]]
        if kind == "ask":
            return interrupt(["ask", arg])
        if kind == "nest":
            return await made(nest(arg, place), place)
        items = [(item, (*place, i)) for i, item in enumerate(arg)]
        if kind == "seq":
            return [await run(*item) for item in items]
        return await asyncio.gather(*(run(*item) for item in items))

    @entrypoint(checkpointer=saver)
    async def workflow(program):
        return {"result": await run(program, ())}

    return workflow


async def until_done(world, workflow, program, **options):
    """Starts the program and resumes it, answering what it asks, until it returns."""
    config = {"configurable": {"thread_id": str(next(threads))}}
    given = program
    for _ in range(100):
        call = asyncio.ensure_future(workflow.ainvoke(given, config, on_busy="wait", **options))
        world.new_attempt(call)
        try:
            result = await call
        except asyncio.CancelledError:
            given = None
            continue
        finally:
            assert asyncio.all_tasks() == {asyncio.current_task()}
        if "__interrupt__" not in result:
            return result["result"]
        given = Command(resume={i.id: i.value for i in result["__interrupt__"]})
    raise AssertionError("the program does not come to an end")


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    program=programs,
    cancels=cancels,
    delays=st.lists(st.integers(0, 4), min_size=1, max_size=7),
    durability=st.sampled_from(["sync", "async", "exit"]),
)
def test_cancelled_program_ends_as_an_undisturbed_one(saver, program, cancels, delays, durability):
    """It gives the same result, and runs no task again whose result its caller had got."""
    world = World(cancels)
    workflow = workflow_of(world, saver, iter(delays * 1000))
    result = asyncio.run(until_done(world, workflow, program, durability=durability))
    assert result == value_of(program)
    assert +world.repeated == Counter()
