"""Messages of any client, shown piece by piece; with and without LangChain."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from perdure import START, StateGraph, entrypoint, task
from perdure.checkpoint.memory import InMemorySaver
from perdure.config import get_message_writer
from perdure.errors import ContextError
from perdure.graph import MessagesState
from perdure.messages import MessageChunk, MessageWriter
from perdure.types import interrupt

WORDS = ["hello", " ", "world"]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in which nobody has loaded LangChain."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "langchain_core"]:
        monkeypatch.delitem(sys.modules, name)


class OpenAiStyle:
    """A client as many are: chunks with choices with deltas."""

    def create(self) -> Iterator[Any]:
        for text in ("hello", None, " ", "world", ""):
            yield SimpleNamespace(choices=[SimpleNamespace(delta=SimpleNamespace(content=text))])


@task
def answer(question: str) -> dict[str, Any]:
    with get_message_writer(provider="any", model="m-1") as writer:
        for event in OpenAiStyle().create():
            writer.text(event.choices[0].delta.content)
    return writer.message


@entrypoint()
def flow(question: str) -> Any:
    return answer(question).result()


def test_pieces_are_chunks_of_the_messages_stream(drive: Any, plain: None) -> None:
    """With the metadata of where they were written; the last one says so."""
    items = drive.stream(flow, "q", stream_mode="messages")
    assert [chunk.content for chunk, _ in items] == [*WORDS, ""]
    assert {type(chunk) for chunk, _ in items} == {MessageChunk}
    assert items[-1][0].chunk_position == "last"
    assert {about["langgraph_node"] for _, about in items} == {"answer"}


def test_the_message_is_there_without_readers(drive: Any) -> None:
    """As a dict that a state of messages takes, under the id that was shown."""
    message = drive.invoke(flow, "q")
    assert (message["role"], message["content"]) == ("assistant", "hello world")
    assert isinstance(message["id"], str)


def test_the_id_is_that_of_the_chunks(drive: Any) -> None:
    """So whoever reads both knows them to be one."""
    items = drive.stream(flow, "q", stream_mode=["messages", "values"])
    ids = {data[0].id for mode, data in items if mode == "messages"}
    assert ids == {items[-1][1]["id"]}


def test_the_id_is_the_same_on_replay(drive: Any) -> None:
    """A message that is written again after a pause is the same message."""
    ids: list[str] = []

    @entrypoint(checkpointer=InMemorySaver())
    def asks(question: str) -> Any:
        ids.append(get_message_writer().id)
        return interrupt("go on?")

    config = {"configurable": {"thread_id": "1"}}
    drive.invoke(asks, "q", config)
    drive.invoke(asks, None, config)
    assert ids[0] == ids[1]


def test_a_message_is_read_as_an_object() -> None:
    """Its text comes piece by piece, as that of a LangChain model."""
    run = flow.stream_events("q", version="v3")
    found = [(message.node, list(message.text), message.message_id) for message in run.messages]
    assert [(node, words) for node, words, _ in found] == [("answer", WORDS)]
    assert found[0][2] == run.output["id"]


def events(write: Any) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    write(MessageWriter("m", events=told.append))
    return told


def test_events_of_a_message() -> None:
    """A block for each kind, closed in the order in which they began."""

    def write(writer: MessageWriter) -> None:
        with writer:
            writer.reasoning("hm")
            writer.text("a")
            writer.reasoning("!")

    told = events(write)
    assert [event["event"].removeprefix("content-block-") for event in told] == [
        "message-start", "start", "delta", "start", "delta", "delta", "finish", "finish", "message-finish",
    ]  # fmt: skip
    assert [event["index"] for event in told[1:-1]] == [0, 0, 1, 1, 0, 0, 1]
    assert told[-3]["content"] == {"type": "reasoning", "reasoning": "hm!"}


def test_tool_calls_come_in_pieces() -> None:
    """Arguments are read when all is there; those that cannot be read stay text."""

    def write(writer: MessageWriter) -> None:
        writer.tool_call(0, id="c1", name="add", args='{"a"')
        writer.tool_call(1, id="c2", name="bad", args="{")
        writer.tool_call(0, args=": 1}")
        writer.finish(usage={"total_tokens": 3})
        assert writer.message["tool_calls"] == [
            {"type": "tool_call", "id": "c1", "name": "add", "args": {"a": 1}},
            {"type": "invalid_tool_call", "id": "c2", "name": "bad", "args": "{"},
        ]

    told = events(write)
    assert [event["content"]["type"] for event in told if event["event"] == "content-block-finish"] == [
        "tool_call", "invalid_tool_call",
    ]  # fmt: skip
    assert told[-1] == {"event": "message-finish", "usage": {"total_tokens": 3}}


def test_an_error_ends_the_message_where_it_is() -> None:
    """Readers are told what it was; a message that had not begun is not shown at all."""

    def write(writer: MessageWriter) -> None:
        writer.text("half")
        with pytest.raises(ConnectionError), writer:
            raise ConnectionError("cut")
        writer.finish()

    told = events(write)
    assert (told[-1]["event"], told[-1]["message"]) == ("error", "cut")
    assert isinstance(told[-1]["error"], ConnectionError)
    assert events(lambda writer: writer.fail(ConnectionError("cut"))) == []


def test_a_message_that_has_ended_takes_no_more() -> None:
    """What to do is said."""
    writer = MessageWriter("m")
    writer.finish()
    with pytest.raises(RuntimeError, match=r"'m' has ended; ask get_message_writer\(\)"):
        writer.text("more")


def test_chunks_add_up() -> None:
    """To what they are pieces of."""
    told: list[MessageChunk] = []

    def show(chunk: Any) -> None:
        told.append(chunk)

    with pytest.MonkeyPatch.context() as patched:
        patched.delitem(sys.modules, "langchain_core.messages", raising=False)
        with MessageWriter("m", chunks=show) as writer:
            writer.reasoning("hm")
            writer.text("a")
            writer.text("b")
            writer.tool_call(id="c", name="f", args="{}")
            writer.finish(usage={"total_tokens": 1})
    whole = told[0] + told[1] + told[2] + told[3] + told[4]
    assert (whole.content, whole.reasoning, whole.id) == ("ab", "hm", "m")
    assert whole.tool_call_chunks[0]["name"] == "f"
    assert (whole.usage_metadata, whole.chunk_position) == ({"total_tokens": 1}, "last")


def test_a_writer_works_on_a_thread_of_ones_own(drive: Any) -> None:
    """It knows where it was asked for."""

    @entrypoint()
    def threaded(question: str) -> None:
        writer = get_message_writer()
        thread = threading.Thread(target=writer.text, args=("from afar",))
        thread.start()
        thread.join()

    items = drive.stream(threaded, "q", stream_mode="messages")
    assert [chunk.content for chunk, _ in items] == ["from afar"]


def test_a_nested_writer_has_the_namespace_of_its_graph(drive: Any) -> None:
    """Without `subgraphs` it is hidden."""

    def node(state: Any) -> Any:
        with get_message_writer() as writer:
            writer.text("inner")
        return {}

    def graph(node: Any) -> Any:
        return StateGraph(MessagesState).add_node("n", node).add_edge(START, "n").compile()

    outer = graph(graph(node))
    assert drive.stream(outer, {"messages": []}, stream_mode="messages") == []
    items = drive.stream(outer, {"messages": []}, stream_mode="messages", subgraphs=True)
    assert [ns[0].partition(":")[0] for ns, _ in items] == ["n", "n"]


def test_outside_of_a_run_there_is_no_writer() -> None:
    """As with the other doors."""
    with pytest.raises(ContextError):
        get_message_writer()


@pytest.mark.langchain
def test_chunks_are_langchains_where_it_is_loaded(drive: Any) -> None:
    """And the message is not shown once more when it is returned as one of LangChain's."""
    from langchain_core.messages import AIMessage, AIMessageChunk

    def node(state: Any) -> Any:
        with get_message_writer() as writer:
            writer.reasoning("hm")
            writer.text("a")
        return {"messages": [AIMessage(writer.message["content"], id=writer.id)]}

    graph = StateGraph(MessagesState).add_node("n", node).add_edge(START, "n").compile()
    chunks = [chunk for chunk, _ in drive.stream(graph, {"messages": []}, stream_mode="messages")]
    assert {type(chunk) for chunk in chunks} == {AIMessageChunk}
    assert chunks[0].content == [{"type": "reasoning", "reasoning": "hm", "index": 0}]
    assert (chunks[0] + chunks[1]).text == "a"
    assert chunks[-1].chunk_position == "last"


@pytest.mark.langchain
def test_the_message_becomes_one_of_langchains(drive: Any) -> None:
    """In a state of messages, under its id."""
    from langchain_core.messages import AIMessage

    def node(state: Any) -> Any:
        with get_message_writer(id="mine") as writer:
            writer.text("a")
            writer.tool_call(id="c", name="f", args='{"x": 1}')
        return {"messages": [writer.message]}

    graph = StateGraph(MessagesState).add_node("n", node).add_edge(START, "n").compile()
    message = drive.invoke(graph, {"messages": []})["messages"][-1]
    assert isinstance(message, AIMessage)
    assert (message.id, message.content, message.tool_calls[0]["args"]) == ("mine", "a", {"x": 1})
