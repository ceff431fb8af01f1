"""What the streaming modes show of functional programs."""

import asyncio

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.config import get_stream_writer
from perdure.func import entrypoint, task
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}


@task
def add(a, b):
    return a + b


def test_updates_shows_each_task_then_the_result(drive):
    """The default stream: one chunk a finished task, then the entrypoint's value."""

    @entrypoint()
    def workflow(x):
        return add(add(x, 1).result(), 1).result()

    assert drive.stream(workflow, 1) == [{"add": 2}, {"add": 3}, {"workflow": 3}]


def test_values_shows_the_result_once(drive):
    """Mode `values` yields once, at the end."""

    @entrypoint()
    def workflow(x):
        return add(x, 1).result()

    assert drive.stream(workflow, 1, stream_mode="values") == [2]


def test_custom_shows_what_tasks_write(drive):
    """Writers of tasks and body feed one stream, in order."""

    @task
    def work(i):
        get_stream_writer()({"task": i})

    @entrypoint()
    def workflow(x):
        work(1).result()
        get_stream_writer()("between")
        work(2).result()

    assert drive.stream(workflow, 1, stream_mode="custom") == [{"task": 1}, "between", {"task": 2}]


def test_several_modes_come_as_pairs(drive):
    """A list of modes yields (mode, chunk)."""

    @entrypoint()
    def workflow(x):
        return add(x, 1).result()

    chunks = drive.stream(workflow, 1, stream_mode=["updates", "values"])
    assert ("updates", {"add": 2}) in chunks
    assert ("updates", {"workflow": 2}) in chunks
    assert ("values", 2) in chunks


def test_restored_tasks_are_not_shown_again(drive, saver):
    """A task served from the record emits nothing on resume."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        total = add(x, 1).result()
        return total + interrupt("?")

    chunks = drive.stream(workflow, 1, T)
    assert chunks[0] == {"add": 2}
    assert [i.value for i in chunks[1]["__interrupt__"]] == ["?"]
    assert drive.stream(workflow, Command(resume=5), T) == [{"workflow": 7}]


def test_interrupt_chunk_is_a_tuple(drive, saver):
    """In updates a pause is one chunk with a tuple."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return interrupt("?")

    (chunk,) = drive.stream(workflow, 1, T)
    assert isinstance(chunk["__interrupt__"], tuple)


def test_output_is_flushed_while_the_body_still_runs():
    """A finished task is seen before the body goes on."""
    seen = []

    @entrypoint()
    def workflow(x):
        add(x, 1).result()
        get_stream_writer()("marker")
        return x

    for mode, chunk in workflow.stream(1, stream_mode=["updates", "custom"]):
        seen.append((mode, chunk))
    assert seen == [("updates", {"add": 2}), ("custom", "marker"), ("updates", {"workflow": 1})]


def test_events_arrive_while_the_task_runs():
    """A task that waits for the consumer proves that its event was delivered before it ended."""
    import threading

    received = threading.Event()

    @task
    def work():
        get_stream_writer()("started")
        assert received.wait(10)
        return "done"

    @entrypoint()
    def workflow(x):
        return work().result()

    chunks = []
    for chunk in workflow.stream(1, stream_mode="custom"):
        chunks.append(chunk)
        received.set()
    assert chunks == ["started"]


def test_async_events_arrive_while_the_task_runs():
    """The same for async tasks."""

    async def main():
        received = asyncio.Event()

        @task
        async def work():
            get_stream_writer()("started")
            await asyncio.wait_for(received.wait(), 10)
            return "done"

        @entrypoint()
        async def workflow(x):
            return await work()

        chunks = []
        async for chunk in workflow.astream(1, stream_mode="custom"):
            chunks.append(chunk)
            received.set()
        return chunks

    assert asyncio.run(main()) == ["started"]


def test_stream_is_lazy():
    """Nothing runs before the stream is read."""
    ran = []

    @entrypoint()
    def workflow(x):
        ran.append(x)
        return x

    stream = workflow.stream(1)
    assert ran == []
    assert list(stream) == [{"workflow": 1}]
    assert ran == [1]


def test_errors_come_after_the_chunks_before_them():
    """What was produced before an error is delivered first."""

    @entrypoint()
    def workflow(x):
        add(x, 1).result()
        raise ValueError("late")

    chunks = []
    with pytest.raises(ValueError, match="late"):
        chunks.extend(workflow.stream(1))
    assert chunks == [{"add": 2}]


def test_tasks_mode_shows_start_and_result(drive):
    """Mode `tasks` tells of every task when it starts and when it ends."""

    @entrypoint()
    def workflow(x):
        return add(x, 1).result()

    chunks = drive.stream(workflow, 1, stream_mode="tasks")
    starts = [c["name"] for c in chunks if "triggers" in c]
    results = {c["name"]: c["result"] for c in chunks if "result" in c}
    assert starts == ["workflow", "add"]
    assert set(results) == {"workflow", "add"}


def test_stream_events_v3_gives_output_and_interrupts(saver):
    """The v3 run object drives to the end and shows output or questions."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return {"answer": interrupt("?")}

    run = workflow.stream_events(1, T, version="v3")
    assert run.output == {}
    assert run.interrupted is True
    assert [i.value for i in run.interrupts] == ["?"]
    resumed = workflow.stream_events(Command(resume="yes"), T, version="v3")
    assert resumed.output == {"answer": "yes"}
    assert resumed.interrupted is False
    assert resumed.interrupts == []


def test_astream_events_v3_is_awaited(saver):
    """The async twin: the call, the output and the interrupts are awaited."""

    @entrypoint(checkpointer=saver)
    async def workflow(x):
        return {"answer": interrupt("?")}

    async def main():
        run = await workflow.astream_events(1, T, version="v3")
        assert await run.output() == {}
        assert [i.value for i in await run.interrupts()] == ["?"]
        resumed = await workflow.astream_events(Command(resume="yes"), T, version="v3")
        return await resumed.output()

    assert asyncio.run(main()) == {"answer": "yes"}


def test_stream_events_v3_raises_the_runs_error_from_output():
    """A failed run's error comes out of `.output`."""

    @entrypoint(checkpointer=InMemorySaver())
    def workflow(x):
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        _ = workflow.stream_events(1, T, version="v3").output


def test_unknown_mode_is_refused_by_name(drive):
    """A mode that does not exist is an error, not silence."""

    @entrypoint()
    def workflow(x):
        return x

    with pytest.raises(ValueError, match="valeus"):
        drive.stream(workflow, 1, stream_mode="valeus")


def test_unknown_keyword_is_refused_by_name(drive):
    """A misspelt keyword argument is an error, not silence."""

    @entrypoint()
    def workflow(x):
        return x

    with pytest.raises(TypeError, match="durabilty"):
        drive.invoke(workflow, 1, durabilty="sync")
