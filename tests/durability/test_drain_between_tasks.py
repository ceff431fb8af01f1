"""`RunControl(between="tasks")`: an entrypoint ends between two of its calls."""

import asyncio
import threading

import pytest

from perdure.errors import GraphDrained
from perdure.func import entrypoint, task
from perdure.runtime import RunControl
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def ran():
    return []


@pytest.fixture
def control():
    return RunControl(between="tasks")


def test_next_call_ends_the_run(drive, saver, ran, control):
    """What was in flight is stored; the next unrecorded call raises; a resume does the rest."""

    @task
    def step(i):
        ran.append(i)
        if i == 1 and not control.drain_requested:
            control.request_drain("sigterm")
        return i

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [step(i).result() for i in range(5)]

    with pytest.raises(GraphDrained, match="sigterm"):
        drive.invoke(workflow, 1, T, control=control)
    assert ran == [0, 1]
    assert drive.invoke(workflow, None, T) == [0, 1, 2, 3, 4]
    assert ran == [0, 1, 2, 3, 4]


def test_recorded_calls_are_still_served(drive, saver, ran, control):
    """With the request made before a resume, the record is replayed up to its end."""

    @task
    def step(i):
        ran.append(i)
        return i

    @entrypoint(checkpointer=saver)
    def workflow(x):
        first = [step(i).result() for i in range(2)]
        interrupt("?")
        return [*first, step(2).result()]

    drive.invoke(workflow, 1, T)
    control.request_drain()
    with pytest.raises(GraphDrained):
        drive.invoke(workflow, Command(resume=True), T, control=control)
    assert ran == [0, 1]
    assert drive.invoke(workflow, None, T) == [0, 1, 2]


def test_nothing_left_to_call_is_a_normal_return(drive, saver, control):
    """A request during the last call changes nothing."""

    @task
    def step():
        control.request_drain()
        return 1

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return step().result()

    assert drive.invoke(workflow, 1, T, control=control) == 1
    assert control.drain_requested


def test_calls_in_flight_finish_and_are_kept(drive, saver, ran, control):
    """Calls that were started beside each other all end and are stored."""
    together = threading.Barrier(3)

    @task
    def step(i):
        if i < 3:
            together.wait(10)
        ran.append(i)
        if i == 0:
            control.request_drain()
        return i

    @entrypoint(checkpointer=saver)
    def workflow(x):
        first = [f.result() for f in [step(i) for i in range(3)]]
        return [*first, step(3).result()]

    with pytest.raises(GraphDrained):
        drive.invoke(workflow, 1, T, control=control)
    assert sorted(ran) == [0, 1, 2]
    together = threading.Barrier(1)
    assert drive.invoke(workflow, None, T) == [0, 1, 2, 3]
    assert sorted(ran) == [0, 1, 2, 3]


def test_async_entrypoint(saver, ran, control):
    """The same for awaited calls."""

    @task
    async def step(i):
        ran.append(i)
        if i == 1:
            control.request_drain()
        return i

    @entrypoint(checkpointer=saver)
    async def workflow(x):
        return [await step(i) for i in range(4)]

    async def main():
        with pytest.raises(GraphDrained):
            await workflow.ainvoke(1, T, control=control)
        return await workflow.ainvoke(None, T)

    assert asyncio.run(main()) == [0, 1, 2, 3]
    assert ran == [0, 1, 2, 3]


def test_nested_entrypoint_drains_through_its_parent(drive, saver, ran, control):
    """A child stops between its own calls, and the parent resumes it there."""

    @task
    def step(i):
        ran.append(i)
        if i == 0 and len(ran) == 1:
            control.request_drain()
        return i

    @entrypoint()
    def child(x):
        return [step(i).result() for i in range(3)]

    @entrypoint(checkpointer=saver)
    def parent(x):
        return child.invoke(x)

    with pytest.raises(GraphDrained):
        drive.invoke(parent, 1, T, control=control)
    assert ran == [0]
    assert drive.invoke(parent, None, T) == [0, 1, 2]
    assert ran == [0, 1, 2]


def test_unknown_boundary_is_refused():
    """A control ends between supersteps or tasks, nothing else."""
    with pytest.raises(ValueError, match="nodes"):
        RunControl(between="nodes")
