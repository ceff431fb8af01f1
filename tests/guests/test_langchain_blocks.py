"""Chat models in runs that are read as content blocks."""

from __future__ import annotations

import asyncio
import copy
import gc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models._compat_bridge import chunks_to_events
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from perdure import START, MessagesState, StateGraph, entrypoint, task
from perdure.ext.langchain.blocks import Blocks

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


def one(node: Any, name: str = "ask") -> Any:
    return StateGraph(MessagesState).add_node(name, node).add_edge(START, name).compile()


def events_of(workflow: Any, given: Any = None) -> list[Any]:
    run = workflow.stream_events({"messages": "hi"} if given is None else given, version="v3")
    return [event["params"]["data"] for event in run if event["method"] == "messages"]


def kinds(data: list[Any]) -> list[str]:
    return [event["event"] for event, _ in data]


WHOLE = [
    "message-start", "content-block-start", *["content-block-delta"] * 3, "content-block-finish",
    "message-finish",
]  # fmt: skip


def test_a_model_gives_content_block_events() -> None:
    """One lifecycle per call, under the id of the message that the node gets."""
    got: list[Any] = []

    def ask(state: Any) -> Any:
        got.append(Chat().invoke("hi"))
        return {"messages": got}

    data = events_of(one(ask))
    assert kinds(data) == WHOLE
    assert data[0][0]["id"] == got[0].id
    assert [event["delta"]["text"] for event, _ in data if "delta" in event] == WORDS


def test_events_say_where_and_by_which_call() -> None:
    """The metadata of chunks, and the id of the model's run."""
    data = events_of(one(lambda state: {"messages": [Chat().invoke("hi"), Chat().invoke("hi")]}))
    assert {about["langgraph_node"] for _, about in data} == {"ask"}
    assert len({about["run_id"] for _, about in data}) == 2


def test_what_the_model_returns_is_what_it_returns_anyway() -> None:
    """The state does not depend on who reads the run."""
    workflow = one(lambda state: {"messages": [Chat().invoke("hi")]})
    run = workflow.stream_events({"messages": "hi"}, version="v3")
    assert run.output["messages"][-1].content == "hello world"


@pytest.mark.parametrize("way", ["stream", "invoke", "stream_events"])
def test_every_way_to_ask_a_model_streams(way: str) -> None:
    """Looping over its chunks, asking for all, or asking for events."""

    def ask(state: Any) -> Any:
        if way == "stream":
            list(Chat().stream("hi"))
        elif way == "invoke":
            Chat().invoke("hi")
        else:
            list(Chat().stream_events("hi", version="v3"))
        return {}

    assert kinds(events_of(one(ask))) == WHOLE


def test_async_models_in_tasks_stream() -> None:
    """Two side by side: each call's events are a lifecycle of their own."""

    @task
    async def speak() -> None:
        await Chat().ainvoke("hi")

    @entrypoint()
    async def flow(text: str) -> None:
        await asyncio.gather(speak(), speak())

    async def read() -> list[Any]:
        run = await flow.astream_events("hi", version="v3")
        return [event["params"]["data"] async for event in run if event["method"] == "messages"]

    by_call: dict[str, list[str]] = {}
    for event, about in asyncio.run(read()):
        by_call.setdefault(about["run_id"], []).append(event["event"])
    assert list(by_call.values()) == [WHOLE, WHOLE]


def test_a_model_error_closes_its_message() -> None:
    """By an event that names it, and carries it; the run goes on."""

    def ask(state: Any) -> Any:
        with pytest.raises(ConnectionError):
            Broken(messages=iter([])).invoke("hi")
        return {}

    data = events_of(one(ask))
    assert kinds(data) == ["message-start", "content-block-start", "content-block-delta", "error"]
    assert data[-1][0]["message"] == "cut"
    assert isinstance(data[-1][0]["error"], ConnectionError)


def test_a_model_error_leaves_nothing_for_the_event_loop() -> None:
    """No task that closes what made the events, and fails at it."""

    @entrypoint()
    async def flow(text: str) -> None:
        with pytest.raises(ConnectionError):
            await Broken(messages=iter([])).ainvoke("hi")

    async def read() -> list[Any]:
        reported: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: reported.append(about))
        run = await flow.astream_events("hi", version="v3")
        await run.output()
        del run
        for _ in range(3):
            gc.collect()
            await asyncio.sleep(0)
        return reported

    assert asyncio.run(read()) == []


def test_a_stream_that_is_left_closes_its_message() -> None:
    """Whoever reads only the beginning gets a message that ends there."""

    def ask(state: Any) -> Any:
        chunks = Chat().stream("hi")
        next(chunks)
        chunks.close()  # type: ignore[attr-defined]
        return {}

    assert kinds(events_of(one(ask)))[-2:] == ["content-block-finish", "message-finish"]


def test_a_model_without_streaming_is_shown_whole() -> None:
    """As the message that it is, once."""

    def ask(state: Any) -> Any:
        return {"messages": [FakeMessagesListChatModel(responses=[AIMessage("whole")]).invoke("hi")]}

    assert [message.content for message, _ in events_of(one(ask))] == ["whole"]


def test_an_older_langchain_shows_the_whole_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it cannot make events of chunks, a message is shown when all is said."""
    monkeypatch.setattr("perdure.ext.langchain.blocks.achunks_to_events", None)
    data = events_of(one(lambda state: {"messages": [Chat().invoke("hi")]}))
    assert [message.content for message, _ in data] == ["hello world"]


def test_a_nested_stream_of_messages_has_chunks() -> None:
    """The shape is the inner reader's, whoever reads the run around it."""
    child = one(lambda state: {"messages": [Chat().invoke("hi")]})
    seen: list[Any] = []

    def node(state: Any) -> Any:
        seen.extend(child.stream({"messages": "hi"}, stream_mode="messages"))
        return {}

    run = one(node).stream_events({"messages": "hi"}, version="v3")
    assert run.interrupts == []
    assert [type(message) for message, _ in seen] == [AIMessageChunk] * 3


def test_chunks_become_events_one_by_one() -> None:
    """Each chunk's events are there when it is pushed."""
    blocks = Blocks("id")
    first = blocks.push(ChatGenerationChunk(message=AIMessageChunk("a")))
    assert [event["event"] for event in first] == WHOLE[:3]
    second = blocks.push(ChatGenerationChunk(message=AIMessageChunk("b")))
    assert [event["event"] for event in second] == WHOLE[2:3]
    assert [event["event"] for event in blocks.end()] == WHOLE[-2:]


def test_a_message_may_be_given_up() -> None:
    """Before its first chunk and after it."""
    Blocks("id").drop()
    blocks = Blocks("id")
    blocks.push(ChatGenerationChunk(message=AIMessageChunk("a")))
    blocks.drop()


def test_tool_calls_come_in_pieces() -> None:
    """Their arguments are parsed when the message ends."""
    blocks = Blocks("id")

    def piece(**kw: Any) -> ChatGenerationChunk:
        call = {"type": "tool_call_chunk", "index": 0, **kw}
        return ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=[call]))

    blocks.push(piece(id="c1", name="add", args='{"a"'))
    delta = blocks.push(piece(id=None, name=None, args=": 1}"))
    assert [event["event"] for event in delta] == ["content-block-delta"]
    finish = blocks.end()[0]["content"]
    assert (finish["type"], finish["name"], finish["args"]) == ("tool_call", "add", {"a": 1})


def test_text_like_the_text_before_is_not_converted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """LangChain looks for the blocks of the first chunk, and of all the others in one piece."""
    looked: list[Any] = []
    found: Any = AIMessageChunk.content_blocks
    blocks_of = property(lambda chunk: looked.append(chunk.content) or found.fget(chunk))
    monkeypatch.setattr(AIMessageChunk, "content_blocks", blocks_of)
    blocks = Blocks("id")
    for word in ("a", "b", "c", "d"):
        (event,) = blocks.push(ChatGenerationChunk(message=AIMessageChunk(word)))[-1:]
        assert event["delta"]["text"] == word
    assert blocks.end()[0]["content"]["text"] == "abcd"
    assert looked == ["a", "bcd"]


def _call(**kw: Any) -> Any:
    return {"type": "tool_call_chunk", "id": None, "name": None, "args": None, "index": 0, **kw}


CHUNKS = st.lists(
    st.sampled_from(
        [
            {"content": "a"},
            {"content": "b"},
            {"content": ""},
            {"content": "o", "response_metadata": {"model_provider": "openai"}},
            {"content": "p", "response_metadata": {"model_provider": "openai", "logprobs": 1}},
            {"content": "q", "response_metadata": {"model_provider": "anthropic"}},
            {"content": "g", "response_metadata": {"model_provider": "google_genai"}},
            {"content": "c", "response_metadata": {"finish_reason": "stop"}},
            {"content": "u", "usage_metadata": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}},
            {"content": "r", "additional_kwargs": {"reasoning_content": "hm"}},
            {"content": "", "tool_call_chunks": [_call(id="1", name="add", args='{"a"')]},
            {"content": "t", "tool_call_chunks": [_call(args=": 1}")]},
            {"content": [{"type": "text", "text": "x", "index": 0}]},
            {"content": [{"type": "text", "text": "x", "index": 1}, {"type": "text", "text": "y"}]},
            {"content": [{"type": "reasoning", "reasoning": "so", "index": 2}]},
            {"content": "", "chunk_position": "last"},
        ]
    )
)


@given(CHUNKS)
def test_events_are_those_that_langchain_makes(fields: list[Any]) -> None:
    """Whatever comes after whatever."""

    def chunks() -> Iterator[ChatGenerationChunk]:
        for kw in copy.deepcopy(fields):
            yield ChatGenerationChunk(message=AIMessageChunk(**kw))

    blocks = Blocks("id")
    events = [event for chunk in chunks() for event in blocks.push(chunk)]
    assert [*events, *blocks.end()] == list(chunks_to_events(chunks(), message_id="id"))
