"""Whatever a program looks like and wherever it stops: it ends as if it had never stopped.

A program is a tree of sequences, parallel parts, nested tasks, questions, tasks that succeed
and tasks that are refused. It is run under a plan of disturbances (a task fails, the body
fails, a drain), one for each attempt, and resumed until it is done.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.checkpoint.memory import InMemorySaver
from perdure.errors import GraphDrained
from perdure.func import entrypoint, task
from perdure.runtime import RunControl
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}

numbers = st.integers(0, 3)
leaves = st.builds(lambda i: ["leaf", i], numbers)
refusals = st.builds(lambda i: ["refused", i], numbers)
questions = st.builds(lambda i: ["ask", i], numbers)


def inner_nodes(nodes):
    """One more level: what may stand side by side asks its questions in a task of its own."""
    nested = st.builds(lambda node: ["nest", node], nodes)
    abreast = st.lists(st.one_of(leaves, nested, pipelines(nested)), min_size=1, max_size=3)
    return st.one_of(
        nested,
        st.builds(lambda items: ["seq", items], st.lists(nodes, max_size=3)),
        st.builds(lambda items: ["par", items], abreast),
    )


def pipelines(nested):
    steps = st.lists(st.one_of(leaves, refusals, nested), max_size=3)
    return st.builds(lambda items: ["seq", items], steps)


programs = st.recursive(st.one_of(leaves, refusals, questions), inner_nodes, max_leaves=8)
disturbances = st.tuples(st.sampled_from(["task", "body", "drain"]), st.integers(1, 6))
plans = st.lists(disturbances, max_size=5)


def value_of(node):
    """What the program returns when nothing disturbs it."""
    kind, arg = node
    if kind in ("seq", "par"):
        return [value_of(item) for item in arg]
    if kind == "nest":
        return ["nest", value_of(arg)]
    return [kind, arg]


def count(node, kind):
    """How often each leaf of this kind stands in the program."""
    if node[0] in ("seq", "par"):
        return sum((count(item, kind) for item in node[1]), Counter())
    if node[0] == "nest":
        return count(node[1], kind)
    return Counter([node[1]] if node[0] == kind else [])


class Disturbed(Exception):
    """The disturbance of an attempt."""


class World:
    """Counts what is finished, and disturbs each attempt at the planned event."""

    def __init__(self, plan):
        self.plan = list(plan)
        self.finished = Counter()
        self.refused = Counter()
        self.lock = threading.Lock()
        self.kind, self.left, self.control = "", 0, None

    def new_attempt(self):
        self.kind, self.left = self.plan.pop(0) if self.plan else ("", 0)
        self.control = RunControl(between="tasks")
        return self.control

    def event(self, kind):
        """Something of this kind happens: fails, or asks for a drain, when its time has come."""
        with self.lock:
            wanted = kind if kind == self.kind else "task" if self.kind == "drain" else ""
            if kind != wanted:
                return
            self.left -= 1
            if self.left != 0:
                return
        if self.kind == "drain":
            self.control.request_drain("plan")
        else:
            raise Disturbed(kind)

    def finish(self, i):
        with self.lock:
            self.finished[i] += 1
        return ["leaf", i]

    def refuse(self, i):
        with self.lock:
            self.refused[i] += 1
        raise KeyError(i)


def sync_workflow(world, saver):
    @task
    def leaf(i):
        world.event("task")
        return world.finish(i)

    @task
    def refuse(i):
        world.refuse(i)

    @task
    def nest(node):
        return ["nest", run(node)]

    @task
    def pipeline(node):
        return run(node)

    def start(node):
        kind, arg = node
        return {"leaf": leaf, "nest": nest}[kind](arg) if kind != "seq" else pipeline(node)

    def run(node):
        world.event("body")
        kind, arg = node
        if kind == "leaf":
            return leaf(arg).result()
        if kind == "refused":
            try:
                refuse(arg).result()
            except KeyError as error:
                return ["refused", error.args[0]]
        if kind == "ask":
            return interrupt(["ask", arg])
        if kind == "nest":
            return nest(arg).result()
        if kind == "seq":
            return [run(item) for item in arg]
        return [future.result() for future in [start(item) for item in arg]]

    @entrypoint(checkpointer=saver)
    def workflow(program):
        return {"result": run(program)}

    return workflow


def async_workflow(world, saver, delays):
    async def yield_for_a_while():
        for _ in range(next(delays)):
            await asyncio.sleep(0)

    @task
    async def leaf(i):
        world.event("task")
        await yield_for_a_while()
        return world.finish(i)

    @task
    async def refuse(i):
        await yield_for_a_while()
        world.refuse(i)

    @task
    async def nest(node):
        return ["nest", await run(node)]

    async def run(node):
        world.event("body")
        kind, arg = node
        if kind == "leaf":
            return await leaf(arg)
        if kind == "refused":
            try:
                await refuse(arg)
            except KeyError as error:
                return ["refused", error.args[0]]
        if kind == "ask":
            return interrupt(["ask", arg])
        if kind == "nest":
            return await nest(arg)
        if kind == "seq":
            return [await run(item) for item in arg]
        return await asyncio.gather(*(run(item) for item in arg))

    @entrypoint(checkpointer=saver)
    async def workflow(program):
        return {"result": await run(program)}

    return workflow


def until_done(world, attempt, program):
    """Starts the program and resumes it, answering what it asks, until it returns."""
    given = program
    for _ in range(100):
        try:
            result = attempt(given, world.new_attempt())
        except (Disturbed, GraphDrained):
            given = None
            continue
        if "__interrupt__" not in result:
            return result["result"]
        given = Command(resume={i.id: i.value for i in result["__interrupt__"]})
    raise AssertionError("the program does not come to an end")


def check(world, program, result):
    assert result == value_of(program)
    assert world.finished == count(program, "leaf")


@settings(max_examples=120, deadline=None)
@given(program=programs, plan=plans)
def test_disturbed_sync_program_ends_as_an_undisturbed_one(program, plan):
    """A sync program gives the same result, and each task finished exactly once."""
    world = World(plan)
    workflow = sync_workflow(world, InMemorySaver())
    result = until_done(world, lambda x, control: workflow.invoke(x, T, control=control), program)
    check(world, program, result)


@settings(max_examples=120, deadline=None)
@given(
    program=programs,
    plan=plans,
    delays=st.lists(st.integers(0, 4), min_size=1, max_size=7),
)
def test_disturbed_async_program_ends_as_an_undisturbed_one(program, plan, delays):
    """An async program does, whatever the timing of its tasks in each attempt."""
    world = World(plan)
    steps = iter(delays * 1000)
    workflow = async_workflow(world, InMemorySaver(), steps)

    def attempt(given, control):
        return asyncio.run(workflow.ainvoke(given, T, control=control))

    check(world, program, until_done(world, attempt, program))


def test_a_line_does_not_take_the_failure_of_its_twin():
    """Of two lines that begin alike one failed: the other finds what it had finished inside."""
    world = World([("task", 2)])
    pipeline = ["nest", ["nest", ["leaf", 0]]]
    program = ["par", [["leaf", 0], pipeline, pipeline]]
    workflow = async_workflow(world, InMemorySaver(), iter([3] * 1000))

    def attempt(given, control):
        return asyncio.run(workflow.ainvoke(given, T, control=control))

    check(world, program, until_done(world, attempt, program))


@settings(max_examples=60, deadline=None)
@given(program=programs)
def test_refused_calls_are_made_once_when_nothing_fails(program):
    """Pauses alone never make a caught failure happen twice."""
    world = World([])
    workflow = sync_workflow(world, InMemorySaver())
    result = until_done(world, lambda x, control: workflow.invoke(x, T, control=control), program)
    check(world, program, result)
    assert world.refused == count(program, "refused")


@settings(max_examples=60, deadline=None)
@given(program=programs, plan=plans, durability=st.sampled_from(["sync", "async", "exit"]))
def test_each_durability_resumes_to_the_same_end(program, plan, durability):
    """When nothing crashes, the three durabilities differ in nothing that can be seen."""
    world = World(plan)
    workflow = sync_workflow(world, InMemorySaver())

    def attempt(given, control):
        return workflow.invoke(given, T, control=control, durability=durability)

    check(world, program, until_done(world, attempt, program))
