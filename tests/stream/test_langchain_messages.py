"""Tokens of LangChain's models in `run.messages`, by LangChain's own message objects."""

from __future__ import annotations

import asyncio
import threading

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.language_models.chat_model_stream import AsyncChatModelStream, ChatModelStream
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool

from perdure.checkpoint.memory import InMemorySaver
from perdure.func import entrypoint, task
from perdure.graph import START, MessagesState, StateGraph
from perdure.stream import StreamTransformer, ToolCallTransformer
from perdure.types import Command, interrupt

pytestmark = pytest.mark.langchain
T = {"configurable": {"thread_id": "t"}}


def model(*texts):
    """A model that writes these answers, word by word."""
    return GenericFakeChatModel(messages=iter([AIMessage(text, id=f"m{n}") for n, text in enumerate(texts)]))


def graph(**nodes):
    """A graph over messages, of nodes one after the other."""
    builder = StateGraph(MessagesState)
    before = START
    for name, function in nodes.items():
        builder.add_node(name, function)
        builder.add_edge(before, name)
        before = name
    return builder.compile()


def talks(texts=("hello big world",), name="talk"):
    llm = model(*texts)
    return {name: lambda state: {"messages": [llm.invoke("hi")]}}


GIVEN = {"messages": [HumanMessage("hi", id="h")]}


def test_tokens_of_a_node(runs):
    """A model that a node invokes streams into one message, with its node and its id."""
    run = runs.open(graph(**talks()), GIVEN)
    (seen,) = [(m.node, m.message_id, list(m.text), m.output.text) for m in run.messages]
    assert seen == ("talk", "m0", ["hello", " ", "big", " ", "world"], "hello big world")


def test_message_objects_are_langchains():
    """Of the class for the kind of run, so that isinstance says so."""
    run = graph(**talks()).stream_events(GIVEN, version="v3")
    assert [type(message) for message in run.messages] == [ChatModelStream]

    async def main():
        run = await graph(**talks()).astream_events(GIVEN, version="v3")
        return [type(message) async for message in run.messages]

    assert asyncio.run(main()) == [AsyncChatModelStream]


def test_tokens_come_while_the_model_writes():
    """The model waits for its first token to have been read."""
    read = threading.Event()

    class Waits(GenericFakeChatModel):
        def _stream(self, *args, **kw):
            for number, chunk in enumerate(super()._stream(*args, **kw)):
                assert number == 0 or read.wait(10)
                yield chunk

    llm = Waits(messages=iter([AIMessage("a b")]))
    run = graph(talk=lambda state: {"messages": [llm.invoke("hi")]}).stream_events(GIVEN, version="v3")
    tokens = []
    for message in run.messages:
        for token in message.text:
            tokens.append(token)
            read.set()
    assert tokens == ["a", " ", "b"]


def test_tokens_of_entrypoints_and_tasks(runs):
    """Both stream into the run's own messages, also after a pause and on None."""
    llm = model(*["one two"] * 20)

    @task
    def write(x):
        return llm.invoke(str(x)).text

    @entrypoint(checkpointer=InMemorySaver())
    def flow(x):
        first = write(x).result()
        answer = interrupt(first)
        return [first, answer, llm.invoke("again").text]

    run = runs.open(flow, 1, T)
    assert [(m.node, "".join(m.text)) for m in run.messages] == [("write", "one two")]
    run = runs.open(flow, Command(resume="yes"), T)
    assert [(m.node, "".join(m.text)) for m in run.messages] == [("flow", "one two")]
    assert run.output == ["one two", "yes", "one two"]


def test_returned_messages_appear_once(runs):
    """What was streamed is not shown again whole; what was not is; other people's never."""
    llm = model("streamed")

    def node(state):
        return {"messages": [llm.invoke("hi"), AIMessage("whole", id="w"), HumanMessage("me", id="x")]}

    run = runs.open(graph(node=node), GIVEN)
    assert [str(m.text) for m in run.messages] == ["streamed", "whole"]


def test_results_of_tools_are_no_messages(runs):
    """A tool's message is not a model's."""
    run = runs.open(graph(node=lambda s: {"messages": [ToolMessage("42", tool_call_id="c")]}), GIVEN)
    assert list(run.messages) == []


def test_quiet_models(runs):
    """A call tagged `nostream` has no tokens; its message appears when it is returned."""
    llm = model("one two").with_config(tags=["nostream"])
    run = runs.open(graph(node=lambda s: {"messages": [llm.invoke("hi")]}), GIVEN)
    assert [list(m.text) for m in run.messages] == [["one two"]]


def test_a_caught_error_of_a_model_ends_its_message(runs):
    """The message fails with the model's exception, the run goes on."""

    class Breaks(GenericFakeChatModel):
        def _stream(self, *args, **kw):
            yield next(iter(super()._stream(*args, **kw)))
            raise ValueError("model broke")

    llm = Breaks(messages=iter([AIMessage("one two")]))

    def node(state):
        try:
            llm.invoke("hi")
        except ValueError:
            return {"messages": [AIMessage("sorry", id="s")]}

    run = runs.open(graph(node=node), GIVEN)
    reader = iter(run.messages)
    broken = next(reader)
    with pytest.raises(ValueError, match="model broke"):
        list(broken.text)
    assert [str(m.text) for m in reader] == ["sorry"]
    assert run.output["messages"][-1].text == "sorry"


def test_messages_of_graphs_inside(runs):
    """They are on the handles of their graphs, and not the root's."""
    run = runs.open(graph(outer=graph(**talks())), GIVEN)
    reader = iter(run.messages)
    told = [[str(message.text) for message in handle.messages] for handle in run.subgraphs]
    assert told == [["hello big world"]]
    assert list(reader) == []


def test_early_transformers_rewrite_tokens(runs):
    """What `before_builtins` changes is what the reader gets."""

    class Loud(StreamTransformer):
        before_builtins = True

        def init(self):
            return {}

        def process(self, event):
            if event["method"] == "messages":
                payload = event["params"]["data"][0]
                if isinstance(payload, dict) and payload["event"] == "content-block-delta":
                    payload["delta"]["text"] = payload["delta"]["text"].upper()
            return True

    run = runs.open(graph(**talks(("abc",))), GIVEN, transformers=[Loud])
    assert [list(message.text) for message in run.messages] == [["ABC"]]


def test_a_classic_stream_inside_keeps_its_chunks(runs):
    """`stream_mode="messages"` in a node gives chunks, also under a run of events."""
    inner = graph(**talks())
    kinds = set()

    def node(state):
        for message, _ in inner.stream(GIVEN, stream_mode="messages"):
            kinds.add(type(message).__name__)

    run = runs.open(graph(node=node), GIVEN)
    told = [[str(message.text) for message in handle.messages] for handle in run.subgraphs]
    assert kinds == {"AIMessageChunk"}
    assert told == [["hello big world"]]


def test_async_models_in_async_runs():
    """Two models at once are two messages, each whole, read by tasks of their own."""

    async def main():
        llm = model("one two", "one two")

        @task
        async def write(n):
            return (await llm.ainvoke(str(n))).text

        @entrypoint()
        async def flow(x):
            return list(await asyncio.gather(write(1), write(2)))

        run = await flow.astream_events(1, version="v3")
        readers = []
        async for message in run.messages:

            async def text(message=message):
                return [token async for token in message.text]

            readers.append(asyncio.create_task(text()))
        return await asyncio.gather(*readers), await run.output()

    tokens, output = asyncio.run(main())
    assert tokens == [["one", " ", "two"]] * 2
    assert output == ["one two"] * 2


def test_a_runnable_around_a_model(runs):
    """Models called inside Runnables stream as well."""
    llm = model("one two")
    chain = RunnableLambda(lambda x: x) | llm
    run = runs.open(graph(node=lambda s: {"messages": [chain.invoke("hi")]}), GIVEN)
    assert [list(m.text) for m in run.messages] == [["one", " ", "two"]]


def test_tools_in_a_run(runs):
    """A tool that a node calls is a call in `tool_calls`, with its output."""

    @tool
    def search(query: str) -> str:
        """Looks something up."""
        return f"about {query}"

    def node(state):
        search.invoke({"type": "tool_call", "id": "c1", "name": "search", "args": {"query": "cats"}})

    run = runs.open(graph(node=node), GIVEN, transformers=[ToolCallTransformer])
    calls = list(run.tool_calls)
    assert [(c.tool_call_id, c.tool_name, c.output, c.completed) for c in calls] == [
        ("c1", "search", "about cats", True)
    ]
