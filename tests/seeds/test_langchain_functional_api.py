"""The Python examples of the page on the Functional API, with the import root changed.

Placeholders are filled, waits are short. Comments of the page are left out.
"""

# ruff: noqa: RET504 (the examples are kept as the page has them)

import asyncio
import time
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.uuid import uuid7

from perdure.checkpoint.memory import InMemorySaver
from perdure.func import entrypoint, task
from perdure.store.base import BaseStore
from perdure.store.memory import InMemoryStore
from perdure.types import Command, StreamWriter, interrupt

pytestmark = pytest.mark.langchain


@pytest.fixture
def checkpointer():
    return InMemorySaver()


@pytest.fixture
def config():
    return {"configurable": {"thread_id": "some_thread_id"}}


def test_essay_with_a_review(checkpointer):
    """Write an essay, pause for a review, finish with the answer; the essay is written once."""
    written = []

    @task
    def write_essay(topic: str) -> str:
        """Write an essay about the given topic."""
        time.sleep(0.001)
        written.append(topic)
        return f"An essay about topic: {topic}"

    @entrypoint(checkpointer=checkpointer)
    def workflow(topic: str) -> dict:
        """A simple workflow that writes an essay and asks for a review."""
        essay = write_essay("cat").result()
        is_approved = interrupt(
            {
                "essay": essay,
                "action": "Please approve/reject the essay",
            }
        )
        return {
            "essay": essay,
            "is_approved": is_approved,
        }

    thread_id = str(uuid7())
    config = {"configurable": {"thread_id": thread_id}}
    stream = workflow.stream_events("cat", config, version="v3")
    _ = stream.output
    assert {"write_essay": stream.interrupts[0].value["essay"]} == {
        "write_essay": "An essay about topic: cat"
    }
    (question,) = stream.interrupts
    assert question.value == {
        "essay": "An essay about topic: cat",
        "action": "Please approve/reject the essay",
    }
    assert len(question.id) == 32

    human_review = True

    resumed_stream = workflow.stream_events(Command(resume=human_review), config, version="v3")
    assert resumed_stream.output == {"essay": "An essay about topic: cat", "is_approved": True}
    assert written == ["cat"]


def test_definition_sync(checkpointer, config):
    """A sync entrypoint takes one input and gives an object with invoke and stream."""

    @entrypoint(checkpointer=checkpointer)
    def my_workflow(some_input: dict) -> int:
        result = len(some_input)
        return result

    assert my_workflow.invoke({"a": 1}, config) == 1
    assert list(my_workflow.stream({"a": 1, "b": 2}, config)) == [{"my_workflow": 2}]


def test_definition_async(checkpointer, config):
    """An async entrypoint gives an object with ainvoke and astream."""

    @entrypoint(checkpointer=checkpointer)
    async def my_workflow(some_input: dict) -> int:
        result = len(some_input)
        return result

    async def main():
        chunks = [chunk async for chunk in my_workflow.astream({"a": 1}, config)]
        return await my_workflow.ainvoke({"a": 1, "b": 2}, config), chunks

    assert asyncio.run(main()) == (2, [{"my_workflow": 1}])


def test_injectable_parameters(config):
    """previous, store, writer and config are passed in by name."""
    in_memory_checkpointer = InMemorySaver()
    in_memory_store = InMemoryStore()
    seen = []

    @entrypoint(checkpointer=in_memory_checkpointer, store=in_memory_store)
    def my_workflow(
        some_input: dict,
        *,
        previous: Any = None,
        store: BaseStore,
        writer: StreamWriter,
        config: RunnableConfig,
    ) -> dict:
        store.put(("inputs",), "last", some_input)
        writer({"seen": some_input})
        seen.append((previous, config["configurable"]["thread_id"]))
        return some_input

    assert my_workflow.invoke({"n": 1}, config) == {"n": 1}
    chunks = list(my_workflow.stream({"n": 2}, config, stream_mode="custom"))
    assert chunks == [{"seen": {"n": 2}}]
    assert seen == [(None, "some_thread_id"), ({"n": 1}, "some_thread_id")]
    assert in_memory_store.get(("inputs",), "last").value == {"n": 2}


def echo(checkpointer):
    @entrypoint(checkpointer=checkpointer)
    def my_workflow(some_input):
        return some_input

    return my_workflow


def test_executing_sync(checkpointer, config, capsys):
    """invoke, and a v3 stream whose messages are read token by token."""
    my_workflow, some_input = echo(checkpointer), "input"

    assert my_workflow.invoke(some_input, config) == "input"

    stream = my_workflow.stream_events(some_input, config, version="v3")
    for message in stream.messages:
        for token in message.text:
            print(token, end="", flush=True)

    assert stream.output == "input"
    assert capsys.readouterr().out == ""


def test_executing_async(checkpointer, config, capsys):
    """ainvoke, and an awaited v3 stream."""
    my_workflow, some_input = echo(checkpointer), "input"

    async def main():
        assert await my_workflow.ainvoke(some_input, config) == "input"

        stream = await my_workflow.astream_events(some_input, config, version="v3")
        async for message in stream.messages:
            async for token in message.text:
                print(token, end="", flush=True)

        return await stream.output()

    assert asyncio.run(main()) == "input"
    assert capsys.readouterr().out == ""


def paused(checkpointer, config):
    @entrypoint(checkpointer=checkpointer)
    def my_workflow(some_input):
        return {"answer": interrupt("question")}

    my_workflow.invoke("input", config)
    return my_workflow


def test_resuming_by_invoke(checkpointer, config):
    """`invoke(Command(resume=value))` goes on after an interrupt."""
    some_resume_value = "yes"
    my_workflow = paused(checkpointer, config)
    assert my_workflow.invoke(Command(resume=some_resume_value), config) == {"answer": "yes"}


def test_resuming_by_ainvoke(checkpointer, config):
    """`ainvoke(Command(resume=value))` does."""
    some_resume_value = "yes"
    my_workflow = paused(checkpointer, config)

    async def main():
        return await my_workflow.ainvoke(Command(resume=some_resume_value), config)

    assert asyncio.run(main()) == {"answer": "yes"}


def test_resuming_by_stream(checkpointer, config):
    """A v3 stream of a Command does."""
    some_resume_value = "yes"
    my_workflow = paused(checkpointer, config)

    stream = my_workflow.stream_events(Command(resume=some_resume_value), config, version="v3")
    for message in stream.messages:
        for token in message.text:
            print(token, end="", flush=True)

    assert stream.output == {"answer": "yes"}


def test_resuming_by_async_stream(checkpointer, config):
    """An awaited v3 stream of a Command does."""
    some_resume_value = "yes"
    my_workflow = paused(checkpointer, config)

    async def main():
        stream = await my_workflow.astream_events(Command(resume=some_resume_value), config, version="v3")
        async for message in stream.messages:
            async for token in message.text:
                print(token, end="", flush=True)
        return await stream.output()

    assert asyncio.run(main()) == {"answer": "yes"}


@pytest.fixture
def failed(checkpointer, config):
    """A workflow whose second task failed, and whose cause is mended; and what its tasks did."""
    broken, ran = [True], []

    @task
    def first():
        ran.append("first")
        return 1

    @task
    def second():
        ran.append("second")
        if broken[0]:
            raise ConnectionError("the provider is down")
        return 2

    @entrypoint(checkpointer=checkpointer)
    def my_workflow(some_input):
        return first().result() + second().result()

    with pytest.raises(ConnectionError):
        my_workflow.invoke("input", config)
    broken[0] = False
    return my_workflow, ran


def test_resuming_after_an_error_by_invoke(failed, config):
    """`invoke(None)` on the same thread; the finished task is not run again."""
    my_workflow, ran = failed
    assert my_workflow.invoke(None, config) == 3
    assert ran == ["first", "second", "second"]


def test_resuming_after_an_error_by_ainvoke(failed, config):
    """`ainvoke(None)` does the same."""
    my_workflow, ran = failed

    async def main():
        return await my_workflow.ainvoke(None, config)

    assert asyncio.run(main()) == 3
    assert ran == ["first", "second", "second"]


def test_resuming_after_an_error_by_stream(failed, config):
    """A v3 stream of None does."""
    my_workflow, ran = failed

    stream = my_workflow.stream_events(None, config, version="v3")
    for message in stream.messages:
        for token in message.text:
            print(token, end="", flush=True)

    assert stream.output == 3
    assert ran == ["first", "second", "second"]


def test_resuming_after_an_error_by_async_stream(failed, config):
    """An awaited v3 stream of None does."""
    my_workflow, ran = failed

    async def main():
        stream = await my_workflow.astream_events(None, config, version="v3")
        async for message in stream.messages:
            async for token in message.text:
                print(token, end="", flush=True)
        return await stream.output()

    assert asyncio.run(main()) == 3
    assert ran == ["first", "second", "second"]


def test_short_term_memory(checkpointer, config):
    """`previous` is the return value of the last invocation: 1, then 3."""

    @entrypoint(checkpointer=checkpointer)
    def my_workflow(number: int, *, previous: Any = None) -> int:
        previous = previous or 0
        return number + previous

    assert my_workflow.invoke(1, config) == 1
    assert my_workflow.invoke(2, config) == 3


def test_final(checkpointer):
    """`entrypoint.final` parts the returned from the saved value: 0, then 6."""

    @entrypoint(checkpointer=checkpointer)
    def my_workflow(number: int, *, previous: Any = None) -> entrypoint.final[int, int]:
        previous = previous or 0
        return entrypoint.final(value=previous, save=2 * number)

    config = {"configurable": {"thread_id": "1"}}

    assert my_workflow.invoke(3, config) == 0
    assert my_workflow.invoke(1, config) == 6


def test_task_called_sync(checkpointer, config):
    """A task gives a future at once; `.result()` waits for it."""

    @task()
    def slow_computation(input_value):
        result = input_value * 2
        return result

    @entrypoint(checkpointer=checkpointer)
    def my_workflow(some_input: int) -> int:
        future = slow_computation(some_input)
        return future.result()

    assert my_workflow.invoke(21, config) == 42


def test_task_called_async(checkpointer, config):
    """In an async entrypoint a task is awaited."""

    @task()
    async def slow_computation(input_value):
        result = input_value * 2
        return result

    @entrypoint(checkpointer=checkpointer)
    async def my_workflow(some_input: int) -> int:
        return await slow_computation(some_input)

    async def main():
        return await my_workflow.ainvoke(21, config)

    assert asyncio.run(main()) == 42


def test_side_effect_outside_a_task(checkpointer, config, tmp_path):
    """The page's mistake: a file written in the body is written again on resume."""
    output = tmp_path / "output.txt"

    @entrypoint(checkpointer=checkpointer)
    def my_workflow(inputs: dict) -> int:
        with open(output, "a") as f:
            f.write("Side effect executed")
        value = interrupt("question")
        return value

    my_workflow.invoke({}, config)
    assert my_workflow.invoke(Command(resume=5), config) == 5
    assert output.read_text() == "Side effect executed" * 2


def test_side_effect_in_a_task(checkpointer, config, tmp_path):
    """The page's remedy: in a task the file is written once."""
    output = tmp_path / "output.txt"

    @task
    def write_to_file():
        with open(output, "a") as f:
            f.write("Side effect executed")

    @entrypoint(checkpointer=checkpointer)
    def my_workflow(inputs: dict) -> int:
        write_to_file().result()
        value = interrupt("question")
        return value

    my_workflow.invoke({}, config)
    assert my_workflow.invoke(Command(resume=5), config) == 5
    assert output.read_text() == "Side effect executed"


def time_dependent(checkpointer, clock, in_task):
    """The page's workflow that decides by the time: read in the body, or in a task."""
    ran = []

    @task
    def slow_task(n):
        ran.append(n)
        return n

    @task
    def get_time() -> float:
        return clock[0]

    @entrypoint(checkpointer=checkpointer)
    def my_workflow(inputs: dict) -> dict:
        t0 = inputs["t0"]
        t1 = get_time().result() if in_task else clock[0]

        delta_t = t1 - t0

        if delta_t > 1:
            result = slow_task(1).result()
            value = interrupt("question")
        else:
            result = slow_task(2).result()
            value = interrupt("question")

        return {"result": result, "value": value}

    return my_workflow, ran


def test_time_read_in_the_body_is_noticed(checkpointer, config):
    """The page's mistake: on resume the other branch is taken. Here that is an error."""
    from perdure.errors import NonDeterminismError

    clock = [100.0]
    my_workflow, ran = time_dependent(checkpointer, clock, in_task=False)
    my_workflow.invoke({"t0": 99.5}, config)
    clock[0] = 200.0
    with pytest.raises(NonDeterminismError):
        my_workflow.invoke(Command(resume="answer"), config)
    assert ran == [2]


def test_time_read_in_a_task_is_replayed(checkpointer, config):
    """The page's remedy: the recorded time decides again."""
    clock = [100.0]
    my_workflow, ran = time_dependent(checkpointer, clock, in_task=True)
    my_workflow.invoke({"t0": 99.5}, config)
    clock[0] = 200.0
    result = my_workflow.invoke(Command(resume="answer"), config)
    assert result == {"result": 2, "value": "answer"}
    assert ran == [2]
