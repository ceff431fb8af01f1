"""Token by token: what chat models say, and messages that nodes and tasks return."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableLambda
from pydantic import BaseModel

from perdure import START, Command, MessagesState, StateGraph, entrypoint, task
from perdure.checkpoint.memory import InMemorySaver
from perdure.graph.message import push_message
from perdure.types import Send

pytestmark = pytest.mark.langchain

WORDS = ["hello", " ", "world"]


class Chat(GenericFakeChatModel):
    """Says "hello world" each time it is asked."""

    def __init__(self, **kw: Any) -> None:
        super().__init__(messages=iter([AIMessage("hello world")] * 9), **kw)


class Broken(GenericFakeChatModel):
    """Fails after its first chunk."""

    def _stream(self, *args: Any, **kw: Any) -> Iterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=AIMessageChunk("half"))
        raise ConnectionError("cut")


def broken() -> Broken:
    return Broken(messages=iter([]))


def ask(state: Any) -> Any:
    return {"messages": [Chat().invoke("hi")]}


def one(node: Any, name: str = "ask", **kw: Any) -> Any:
    return StateGraph(MessagesState).add_node(name, node, **kw).add_edge(START, name).compile()


def read(drive: Any, workflow: Any, config: Any = None, **kw: Any) -> list[Any]:
    given = {"messages": "hi"} if "messages" in workflow.channels else "hi"
    found: list[Any] = drive.stream(workflow, given, config, stream_mode="messages", **kw)
    return found


def said(items: list[Any]) -> list[str]:
    return [message.content for message, _ in items]


# tokens --------------------------------------------------------------------------------------


def test_a_model_called_in_a_node_streams(drive: Any) -> None:
    """Chunks come one by one; the message that the node returns is not shown once more."""
    items = read(drive, one(ask))
    assert said(items) == WORDS
    assert all(isinstance(message, AIMessageChunk) for message, _ in items)
    assert len({message.id for message, _ in items}) == 1
    assert items[-1][0].chunk_position == "last"


def test_an_async_model_streams() -> None:
    """Called by `ainvoke` in a coroutine, and by `astream`."""

    async def node(state: Any) -> Any:
        await Chat().ainvoke("hi")
        async for _ in Chat().astream("hi"):
            pass
        return {}

    async def run() -> list[Any]:
        return [item async for item in one(node).astream({"messages": "hi"}, stream_mode="messages")]

    assert said(asyncio.run(run())) == WORDS * 2


def test_models_in_entrypoints_and_tasks_stream(drive: Any) -> None:
    """At the run's own level, however deep the task is called."""

    @task
    def inner() -> str:
        return str(Chat().invoke("hi").content)

    @task
    def outer() -> str:
        return inner().result()

    @entrypoint()
    def flow(text: str) -> str:
        Chat().invoke("hi")
        return outer().result()

    items = drive.stream(flow, "hi", stream_mode="messages", subgraphs=True)
    assert [ns for ns, _ in items] == [()] * 6
    assert [data[1]["langgraph_node"] for _, data in items] == ["flow"] * 3 + ["inner"] * 3


def test_async_tasks_stream() -> None:
    """Two that run side by side: each chunk says whose it is."""

    @task
    async def speak(n: int) -> None:
        await Chat().ainvoke("hi")

    @entrypoint()
    async def flow(text: str) -> None:
        await asyncio.gather(speak(1), speak(2))

    async def run() -> list[Any]:
        return [item async for item in flow.astream("hi", stream_mode="messages")]

    items = asyncio.run(run())
    by_message: dict[str, list[str]] = {}
    for message, _ in items:
        by_message.setdefault(message.id, []).append(message.content)
    assert list(by_message.values()) == [WORDS, WORDS]
    assert len({about["langgraph_checkpoint_ns"] for _, about in items}) == 2


def test_chunks_are_seen_while_the_model_speaks() -> None:
    """The second chunk is made only after the first one was read."""
    heard = threading.Event()

    class Waits(GenericFakeChatModel):
        def _stream(self, *args: Any, **kw: Any) -> Iterator[ChatGenerationChunk]:
            yield ChatGenerationChunk(message=AIMessageChunk("first"))
            assert heard.wait(10)
            yield ChatGenerationChunk(message=AIMessageChunk("second"))

    events = one(lambda state: {"messages": [Waits(messages=iter([])).invoke("hi")]}).stream(
        {"messages": "hi"}, stream_mode="messages"
    )
    assert next(events)[0].content == "first"
    heard.set()
    assert next(events)[0].content == "second"
    events.close()


def test_metadata_says_where_a_model_was_called(drive: Any) -> None:
    """The documented keys, the user's tags and metadata, and of `configurable` only what is known."""
    config = {
        "tags": ["mine"],
        "metadata": {"who": "me"},
        "configurable": {"thread_id": "1", "run_id": "r", "secret": "s"},
    }
    about = read(drive, one(ask), config)[0][1]
    assert (about["langgraph_node"], about["langgraph_step"]) == ("ask", 1)
    assert about["langgraph_triggers"] == ("branch:to:ask",)
    assert about["langgraph_path"] == ("__pregel_pull", "ask")
    assert about["langgraph_checkpoint_ns"] == about["checkpoint_ns"]
    assert (about["thread_id"], about["run_id"], about["who"], about["tags"]) == ("1", "r", "me", ["mine"])
    assert (about["ls_model_type"], about["ls_integration"]) == ("chat", "langchain_chat_model")
    assert "secret" not in about


def test_metadata_survives_a_config_of_the_calls_own(drive: Any) -> None:
    """A model that is called with metadata and tags of its own has the node's besides."""

    def node(state: Any) -> Any:
        Chat().invoke("hi", {"metadata": {"own": 1}, "tags": ["own"]})
        return {}

    about = read(drive, one(node), {"tags": ["mine"]})[0][1]
    assert (about["own"], about["langgraph_node"]) == (1, "ask")
    assert set(about["tags"]) == {"own", "mine"}


def test_path_of_a_task(drive: Any) -> None:
    """The caller's path, and the number of the call."""

    @task
    def speak() -> None:
        Chat().invoke("hi")

    @entrypoint()
    def flow(text: str) -> None:
        speak().result()
        speak().result()

    paths = [about["langgraph_path"] for _, about in read(drive, flow)]
    assert paths[0] == ("__pregel_push", ("__pregel_pull", "flow"), 0, True)
    assert paths[3] == ("__pregel_push", ("__pregel_pull", "flow"), 1, True)


def test_models_inside_runnables_stream(drive: Any) -> None:
    """A chain as a node, and a chain called in one."""
    chain = RunnableLambda(lambda state: "hi") | Chat() | RunnableLambda(lambda said: {"messages": [said]})
    assert said(read(drive, one(chain))) == WORDS
    assert said(read(drive, one(lambda state: chain.invoke(state)))) == WORDS


def test_a_model_without_streaming_is_shown_once(drive: Any) -> None:
    """Its whole message, when it is there."""

    def node(state: Any) -> Any:
        return {"messages": [FakeMessagesListChatModel(responses=[AIMessage("whole")]).invoke("hi")]}

    items = read(drive, one(node))
    assert said(items) == ["whole"]
    assert items[0][1]["ls_integration"] == "langchain_chat_model"


def test_a_model_tagged_nostream_is_silent(drive: Any) -> None:
    """No tokens; the message that the node returns is shown whole."""
    quiet = Chat().with_config(tags=["nostream"])
    assert said(read(drive, one(lambda state: {"messages": [quiet.invoke("hi")]}))) == ["hello world"]
    assert said(read(drive, one(lambda state: quiet.invoke("hi") and {}))) == []


def test_a_model_error_ends_its_message(drive: Any) -> None:
    """What it said is shown; the error is the caller's, who may go on."""

    def node(state: Any) -> Any:
        with pytest.raises(ConnectionError):
            broken().invoke("hi")
        return {"messages": [Chat().invoke("hi")]}

    assert said(read(drive, one(node))) == ["half", *WORDS]


def test_callbacks_of_the_caller_hear_beside_the_stream(drive: Any) -> None:
    """A handler of the user's is not replaced."""
    heard: list[str] = []

    class Handler(BaseCallbackHandler):
        def on_llm_new_token(self, token: Any, **kw: Any) -> None:
            heard.append(token)

    assert said(read(drive, one(ask), {"callbacks": [Handler()]})) == WORDS
    assert heard == WORDS


def test_nothing_streams_where_nobody_reads(drive: Any) -> None:
    """Without `messages`, a model is asked for its whole answer."""
    calls: list[str] = []

    class Noted(Chat):
        def _stream(self, *args: Any, **kw: Any) -> Iterator[ChatGenerationChunk]:
            calls.append("streamed")
            yield from super()._stream(*args, **kw)

    workflow = one(lambda state: {"messages": [Noted().invoke("hi")]})
    drive.stream(workflow, {"messages": "hi"}, stream_mode="values")
    assert calls == []


def test_a_resumed_run_streams(drive: Any) -> None:
    """Also one that goes on with no input."""
    builder = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask")
    workflow = builder.compile(checkpointer=InMemorySaver(), interrupt_before=["ask"])
    config = {"configurable": {"thread_id": "1"}}
    drive.invoke(workflow, {"messages": "hi"}, config)
    assert said(drive.stream(workflow, None, config, stream_mode="messages")) == WORDS


# complete messages ---------------------------------------------------------------------------


def test_returned_messages_are_shown(drive: Any) -> None:
    """Of every kind, once, with the metadata of the node."""
    messages = [AIMessage("a", id="1"), HumanMessage("h", id="2"), ToolMessage("t", tool_call_id="c", id="3")]
    items = read(drive, one(lambda state: {"messages": messages}))
    assert [message for message, _ in items] == messages
    assert {about["ls_integration"] for _, about in items} == {"langgraph"}
    assert {about["langgraph_node"] for _, about in items} == {"ask"}


@dataclass
class AsData:
    answer: Any


class AsModel(BaseModel):
    answer: Any


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m,
        lambda m: [m],
        lambda m: {"any": m},
        lambda m: {"any": (m,)},
        lambda m: AsData(m),
        lambda m: AsModel(answer=[m]),
    ],
    ids=["bare", "list", "field", "field of several", "dataclass", "pydantic"],
)
def test_where_messages_are_looked_for(drive: Any, make: Any) -> None:
    """The value itself, its elements, its fields, and the elements of those."""

    @task
    def give() -> Any:
        return make(AIMessage("found", id="1"))

    @entrypoint()
    def flow(text: str) -> str:
        give().result()
        return text

    assert said(read(drive, flow)) == ["found"]


def test_messages_in_commands_are_shown(drive: Any) -> None:
    """The update of one, and of several."""
    first, second = AIMessage("1", id="1"), AIMessage("2", id="2")
    commands = [Command(update={"messages": [first]}), Command(update={"messages": second})]
    assert said(read(drive, one(lambda state: commands))) == ["1", "2"]


def test_messages_deeper_are_not_looked_for(drive: Any) -> None:
    """A dict in a dict is somebody's own business."""

    @entrypoint()
    def flow(text: str) -> Any:
        return {"deep": {"er": AIMessage("hidden", id="1")}}

    assert read(drive, flow) == []


def test_a_message_without_id_gets_one(drive: Any) -> None:
    """The stream and the state know it by the same id."""
    message = AIMessage("a")
    items = read(drive, one(lambda state: {"messages": [message]}))
    assert items[0][0].id is not None
    assert message.id == items[0][0].id


def test_messages_of_the_input_are_not_shown(drive: Any) -> None:
    """A node that returns what it was given shows only what is new."""
    workflow = one(lambda state: {"messages": [*state["messages"], AIMessage("new", id="n")]})
    assert said(read(drive, workflow)) == ["new"]


def test_a_message_is_shown_once_in_a_run(drive: Any) -> None:
    """Also when two nodes return it."""
    message = AIMessage("once", id="1")
    builder = StateGraph(MessagesState)
    for name in ("a", "b"):
        builder.add_node(name, lambda state: {"messages": [message]}).add_edge(START, name)
    assert said(read(drive, builder.compile())) == ["once"]


def test_a_pushed_message_is_shown_once(drive: Any) -> None:
    """It is shown at once, and not again when it is returned."""

    def node(state: Any) -> Any:
        message = push_message(AIMessage("pushed", id="1"))
        return {"messages": [message]}

    assert said(read(drive, one(node))) == ["pushed"]


def test_sent_tasks_show_their_messages(drive: Any) -> None:
    """Each packet's task is one of its own."""
    builder = StateGraph(MessagesState).add_node("each", lambda n: {"messages": [AIMessage(n, id=n)]})
    builder.add_conditional_edges(START, lambda state: [Send("each", "1"), Send("each", "2")])
    assert sorted(said(read(drive, builder.compile()))) == ["1", "2"]


# nested runs ---------------------------------------------------------------------------------


def test_tokens_of_a_nested_graph_are_hidden(drive: Any) -> None:
    """Without `subgraphs` its message shows when the node that contains it returns it."""
    items = read(drive, one(one(ask), "child"))
    assert said(items) == ["hello world"]
    assert items[0][1]["langgraph_node"] == "child"


def test_tokens_of_a_nested_graph_show_with_its_namespace(drive: Any) -> None:
    """With `subgraphs`, and then the node that contains it does not repeat them."""
    items = read(drive, one(one(ask), "child"), subgraphs=True)
    assert said([data for _, data in items]) == WORDS
    assert {len(ns) for ns, _ in items} == {1}
    assert items[0][0][0].startswith("child:")
    assert items[0][1][1]["langgraph_checkpoint_ns"].startswith(items[0][0][0] + "|ask:")


def test_a_nested_graph_that_is_streamed_sees_its_own_tokens(drive: Any) -> None:
    """They do not leak to a reader above who did not ask for subgraphs."""
    seen: list[str] = []
    child = one(ask)

    def node(state: Any) -> Any:
        seen.extend(said(list(child.stream({"messages": "hi"}, stream_mode="messages"))))
        return {}

    assert read(drive, one(node)) == []
    assert seen == WORDS


def test_a_nested_graph_on_a_thread_of_its_own_keeps_its_tokens(drive: Any) -> None:
    """It is a run by itself."""
    seen: list[str] = []
    builder = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask")
    child = builder.compile(checkpointer=InMemorySaver())

    def node(state: Any) -> Any:
        config = {"configurable": {"thread_id": "own"}}
        seen.extend(said(list(child.stream({"messages": "hi"}, config, stream_mode="messages"))))
        return {}

    assert read(drive, one(node)) == []
    assert seen == WORDS


def test_readers_above_hear_a_nested_graph_that_is_streamed(drive: Any) -> None:
    """With `subgraphs`; its message is not shown once more by the node that returns it."""
    seen: list[str] = []
    child = one(ask)

    def node(state: Any) -> Any:
        for mode, data in child.stream({"messages": "hi"}, stream_mode=["messages", "values"]):
            if mode == "messages":
                seen.append(data[0].content)
        return data

    items = read(drive, one(node, "outer"), subgraphs=True)
    assert said([data for ns, data in items if ns]) == seen == WORDS
    assert [data[0].type for ns, data in items if not ns] == ["human"]
