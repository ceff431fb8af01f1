"""Workflows are Runnables to LangChain."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableLambda, RunnableSequence

from perdure import START, MessagesState, StateGraph, entrypoint, task

pytestmark = pytest.mark.langchain


@task
def more(n: int) -> int:
    return n + 1


@entrypoint()
def flow(n: int) -> int:
    return more(n).result()


def ask(state: Any) -> Any:
    return {"messages": [GenericFakeChatModel(messages=iter([AIMessage("hello world")])).invoke("hi")]}


def chat() -> Any:
    return StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile()


def run(drive: Any, chain: Any, given: Any) -> Any:
    return asyncio.run(chain.ainvoke(given)) if drive.is_async else chain.invoke(given)


def test_a_workflow_is_a_runnable() -> None:
    """A compiled graph and an entrypoint."""
    assert isinstance(flow, Runnable)
    assert isinstance(chat(), Runnable)


def test_a_workflow_made_before_langchain_was_loaded_is_a_runnable() -> None:
    """Whoever asks first may be LangChain."""
    program = (
        "import sys\n"
        "from perdure import entrypoint\n"
        "@entrypoint()\n"
        "def flow(n): return n + 1\n"
        "assert 'langchain_core' not in sys.modules\n"
        "from langchain_core.runnables import RunnableLambda\n"
        "print((RunnableLambda(lambda n: n) | flow).invoke(1))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "2\n"


def test_a_workflow_is_a_step_of_a_chain(drive: Any) -> None:
    """At its beginning, in its middle and at its end, whatever the others are."""
    assert run(drive, (lambda n: n * 10) | flow, 1) == 11
    assert run(drive, flow | (lambda n: n * 10), 1) == 20
    assert run(drive, RunnableLambda(lambda n: n) | flow | flow, 1) == 3
    assert run(drive, flow | {"a": flow, "b": lambda n: n}, 1) == {"a": 3, "b": 2}
    assert isinstance(flow | flow, RunnableSequence)


def test_a_chain_with_a_workflow_streams_the_result() -> None:
    """The next step takes the state, not one node's update."""
    chain = RunnableLambda(lambda text: {"messages": text}) | chat() | (lambda s: s["messages"][-1].content)
    assert list(chain.stream("hi")) == ["hello world"]

    async def read() -> list[Any]:
        return [item async for item in chain.astream("hi")]

    assert asyncio.run(read()) == ["hello world"]


def test_a_chain_with_a_workflow_takes_batches(drive: Any) -> None:
    """Through the workflow's own."""
    chain = flow | flow
    found = asyncio.run(chain.abatch([1, 2])) if drive.is_async else chain.batch([1, 2])
    assert found == [3, 4]


def test_methods_of_runnables_work(drive: Any) -> None:
    """Those that a workflow does not have itself."""
    assert run(drive, flow.with_retry(), 1) == 2
    assert run(drive, flow.map(), [1, 2]) == [2, 3]
    assert run(drive, flow.bind(durability=None), 1) == 2
    assert run(drive, flow.pipe(flow), 1) == 3
    assert len(run(drive, chat().pick("messages"), {"messages": "hi"})) == 2
    assert flow.get_input_schema().__name__.endswith("Input")


def test_a_chain_is_a_node_that_contains_a_workflow(drive: Any) -> None:
    """The workflow in it is nested in the run."""
    chain = RunnableLambda(lambda state: state) | chat()
    outer = StateGraph(MessagesState).add_node("n", chain).add_edge(START, "n").compile()
    items = drive.stream(outer, {"messages": "hi"}, stream_mode="messages", subgraphs=True)
    assert [data[0].content for _, data in items][:3] == ["hello", " ", "world"]
    assert {ns[0].partition(":")[0] for ns, _ in items} == {"n"}


def test_the_tools_of_copying_see_the_class() -> None:
    """What makes a workflow a Runnable does not get in their way."""
    copied = flow.with_config({"tags": ["a"]})
    assert type(copied) is type(flow)
    assert copied.invoke(1) == 2


def events(workflow: Any, given: Any, **kw: Any) -> list[Any]:
    async def read() -> list[Any]:
        return [event async for event in workflow.astream_events(given, version="v2", **kw)]

    return asyncio.run(read())


def test_langchain_events_tell_of_tasks() -> None:
    """The run, the function and its task: each starts, gives its output and ends."""
    found = [(event["event"], event["name"]) for event in events(flow, 1)]
    assert found[:3] == [("on_chain_start", name) for name in ("LangGraph", "flow", "more")]
    for name in ("more", "flow", "LangGraph"):
        assert found.index(("on_chain_stream", name)) < found.index(("on_chain_end", name))


def test_langchain_events_tell_of_models() -> None:
    """Token by token, without anything being asked of the model."""
    found = events(chat(), {"messages": "hi"})
    chunks = [event["data"]["chunk"].content for event in found if event["event"] == "on_chat_model_stream"]
    assert chunks == ["hello", " ", "world"]
    ended = next(event for event in found if event["event"] == "on_chain_end" and event["name"] == "ask")
    assert ended["data"]["output"]["messages"][0].content == "hello world"
    assert ended["metadata"]["langgraph_node"] == "ask"
    assert ended["tags"] == ["graph:step:1"]


def test_langchain_events_are_filtered() -> None:
    """By LangChain's own arguments, beside those of the stream."""
    found = events(chat(), {"messages": "hi"}, include_names=["ask"], stream_mode="values")
    assert {event["name"] for event in found} == {"ask"}


def test_the_caller_may_name_the_run() -> None:
    """Only the run itself has the id and the name; what it calls has its own."""
    found = events(chat(), {"messages": "hi"}, config={"run_name": "mine"})
    assert found[0]["name"] == found[-1]["name"] == "mine"
    assert sum(event["name"] == "mine" and event["event"] == "on_chain_start" for event in found) == 1
