"""`run.messages`: objects for the messages of models, by classes of our own where LangChain's
are not installed."""

from __future__ import annotations

import asyncio

import pytest

from perdure.func import entrypoint
from perdure.stream import MessagesTransformer, StreamTransformer, message_stream, messages
from perdure.stream.message_events import message_to_events
from perdure.stream.router import EventRouter
from stream.events import said, written


@pytest.fixture
def own_classes(monkeypatch):
    """The classes that stand in where LangChain is not installed."""
    classes = message_stream.ChatModelStream, message_stream.AsyncChatModelStream
    monkeypatch.setattr(messages, "stream_classes", lambda: classes)


def shown(*payloads, run_id="r1", **kw):
    """The message objects that come of some payloads, with a run that goes on while they are read."""
    transformer = MessagesTransformer()
    router = EventRouter([transformer])
    events = iter([said(payload, run_id=run_id, **kw) for payload in payloads])

    def pump():
        item = next(events, None)
        if item is None:
            router.close()
            return False
        router.push(item)
        return True

    router.bind_pump(pump)
    return iter(transformer.channel)


def shown_async(*payloads):
    """The same in an async run."""
    transformer = MessagesTransformer()
    router = EventRouter([transformer], is_async=True)
    events = iter([said(payload) for payload in payloads])

    async def pump():
        item = next(events, None)
        if item is None:
            await router.aclose()
            return False
        await router.apush(item)
        return True

    router.bind_apump(pump)
    return aiter(transformer.channel)


pytestmark = pytest.mark.usefixtures("own_classes")


# which messages ------------------------------------------------------------------------------


def test_a_message_appears_when_it_starts():
    """Before its first token, and with what is known of it."""
    message = next(shown(*written("he", "llo")))
    assert (message.node, message.message_id, message.namespace) == ("model", "m1", [])
    assert (message.done, message.has_events, message.output_message) == (False, True, None)


def test_models_that_write_at_the_same_time_are_kept_apart():
    """Each call has its own object, in the order of their starts."""
    transformer = MessagesTransformer()
    router = EventRouter([transformer])
    reader = iter(transformer.channel)
    for one, two in zip(written("a", "b", id="1"), written("x", "y", id="2"), strict=True):
        router.push(said(one, run_id="one"))
        router.push(said(two, run_id="two"))
    router.close()
    assert [str(message.text) for message in reader] == ["ab", "xy"]


@pytest.mark.parametrize(
    "payload",
    [
        {"role": "user", "content": "hi"},
        {"role": "tool", "content": "42"},
        {"event": "content-block-delta", "index": 0, "delta": {"type": "text-delta", "text": "lost"}},
        {"event": "message-start", "role": "tool", "id": "t"},
    ],
)
def test_what_is_not_a_models_answer_is_not_shown(payload):
    """Other people's words, tools' results, pieces of unknown messages."""
    assert list(shown(payload)) == []


def test_messages_of_other_graphs_are_not_shown():
    """Those are on their graphs' handles."""
    assert list(shown(*written("x"), ns=("sub:1",))) == []


def test_a_whole_message_is_a_finished_object():
    """A message that came in one piece reads like one that came in many."""
    (message,) = shown({"role": "assistant", "content": "full", "id": "m9"})
    assert (list(message.text), message.done, message.message_id) == (["full"], True, "m9")
    assert message.output == {"role": "assistant", "content": "full", "id": "m9"}
    assert [event["event"] for event in message] == [
        "message-start", "content-block-start", "content-block-delta", "content-block-finish",
        "message-finish",
    ]  # fmt: skip


def test_whole_tool_calls_have_no_deltas():
    """A call that came whole is in the list alone, in either way of writing it."""
    calls = [
        {"id": "1", "name": "f", "args": {"x": 1}},
        {"id": "2", "function": {"name": "g", "arguments": '{"y": 2}'}},
    ]
    (message,) = shown({"role": "assistant", "content": "", "tool_calls": calls})
    assert list(message.tool_calls) == []
    assert [(c["name"], c["args"]) for c in message.tool_calls.get()] == [("f", {"x": 1}), ("g", {"y": 2})]


def test_blocks_of_a_whole_message_are_closed_one_by_one():
    """Each block ends before the next begins."""
    content = [{"type": "reasoning", "reasoning": "hm"}, "plain", {"type": "image", "url": "u"}]
    events = list(message_to_events({"role": "assistant", "content": content}))
    assert [(e["event"].rpartition("-")[2], e.get("index")) for e in events] == [
        ("start", None), ("start", 0), ("delta", 0), ("finish", 0), ("start", 1), ("delta", 1), ("finish", 1),
        ("start", 2), ("finish", 2), ("finish", None),
    ]  # fmt: skip


# reading -------------------------------------------------------------------------------------


def test_tokens_come_as_they_are_written():
    """Each delta is given before the next is asked for."""
    asked = []

    def payloads():
        for payload in written("a", "b", "c"):
            asked.append(payload)
            yield payload

    transformer = MessagesTransformer()
    router = EventRouter([transformer])
    source = payloads()

    def pump():
        payload = next(source, None)
        if payload is None:
            router.close()
            return False
        router.push(said(payload))
        return True

    router.bind_pump(pump)
    text = iter(next(iter(transformer.channel)).text)
    assert [(next(text), len(asked)) for _ in range(3)] == [("a", 3), ("b", 4), ("c", 5)]


def test_iterators_start_at_the_first_delta():
    """Any number of them, also after the end of the run."""
    (message,) = list(shown(*written("a", "b")))
    assert [list(message.text), list(message.text)] == [["a", "b"], ["a", "b"]]
    assert list(message) == list(written("a", "b"))


def test_text_is_a_string_when_asked():
    """`str` and `get` wait for the whole; `bool` and `repr` show what is there."""
    message = next(shown(*written("a", "b")))
    assert (bool(message.text), repr(message.text)) == (False, "''")
    assert (str(message.text), message.text.get(), repr(message.text)) == ("ab", "ab", "'ab'")


def test_reasoning_and_tool_calls():
    """Each kind has deltas of its own, and a whole."""
    message = next(shown(
        {"event": "message-start", "id": "m", "metadata": {"provider": "p", "model": "x"}},
        {"event": "content-block-start", "index": 0, "content": {"type": "reasoning", "reasoning": ""}},
        {"event": "content-block-delta", "index": 0, "delta": {"type": "reasoning-delta", "reasoning": "hm"}},
        {"event": "content-block-start", "index": 1,
         "content": {"type": "tool_call_chunk", "id": "c", "name": "f", "args": ""}},
        {"event": "content-block-delta", "index": 1, "delta": {"type": "tool-call-delta", "args": '{"x":'}},
        {"event": "content-block-delta", "index": 1,
         "delta": {"type": "block-delta", "fields": {"args": "1}"}}},
        {"event": "message-finish", "usage": {"total_tokens": 3}, "metadata": {"finish_reason": "stop"}},
    ))  # fmt: skip
    assert list(message.reasoning) == ["hm"]
    assert [chunk["args"] for chunk in message.tool_calls] == ["", '{"x":', "1}"]
    assert message.tool_calls.get() == [{"type": "tool_call", "id": "c", "name": "f", "args": {"x": 1}}]
    output = message.output
    assert output["content"][0] == {"type": "reasoning", "reasoning": "hm"}
    assert output["usage_metadata"] == {"total_tokens": 3}
    assert output["response_metadata"] == {"model_provider": "p", "model_name": "x", "finish_reason": "stop"}


def test_tool_calls_that_are_no_json():
    """They are kept, as what they are."""
    message = next(shown(
        {"event": "message-start", "id": "m"},
        {"event": "content-block-start", "index": 0,
         "content": {"type": "tool_call_chunk", "id": "c", "name": "f", "args": "{oops"}},
        {"event": "message-finish"},
    ))  # fmt: skip
    assert message.tool_calls.get() == []
    assert [call["args"] for call in message.output["invalid_tool_calls"]] == ["{oops"]


def test_the_older_spelling_of_blocks():
    """`content_block` is read like `content` and `delta`; unknown deltas change nothing."""
    message = next(shown(
        {"event": "message-start", "id": "m"},
        {"event": "content-block-delta", "index": 0, "content_block": {"type": "text", "text": "x"}},
        {"event": "content-block-delta", "index": 0, "delta": {"type": "who-knows"}},
        {"event": "message-finish"},
    ))  # fmt: skip
    assert str(message.text) == "x"


def test_the_outer_loop_may_skip_the_inner_one():
    """The next message comes without the first having been read."""
    both = [*written("a", id="1"), *written("b", id="2")]
    assert [message.message_id for message in shown(*both)] == ["1", "2"]


# ends ----------------------------------------------------------------------------------------


def test_an_error_of_the_model_ends_its_message():
    """Readers get what there is, then the model's own exception; the run goes on."""
    error = ValueError("no answer")
    failed = [*list(written("a"))[:3], {"event": "error", "message": "no answer", "error": error}]
    reader = shown(*failed, {"role": "assistant", "content": "next"})
    message = next(reader)
    text = iter(message.text)
    assert next(text) == "a"
    for read in (lambda: next(text), lambda: message.output, lambda: str(message.text)):
        with pytest.raises(ValueError, match="no answer") as raised:
            read()
        assert raised.value is error
    assert str(next(reader).text) == "next"


def test_an_error_told_by_text_alone():
    """From far away an error is text."""
    message = next(shown({"event": "message-start", "id": "m"}, {"event": "error", "message": "boom"}))
    with pytest.raises(RuntimeError, match="boom"):
        _ = message.output


def test_an_unfinished_message_at_the_end_of_the_run():
    """Its text ends; there is no output."""
    message = next(shown(*list(written("a", "b"))[:4]))
    assert list(message.text) == ["a", "b"]
    with pytest.raises(RuntimeError, match="before this message was finished"):
        _ = message.output


def test_a_failed_run_fails_its_open_messages():
    """They raise what the run raises."""
    transformer = MessagesTransformer()
    router = EventRouter([transformer])
    reader = iter(transformer.channel)
    router.push(said(next(written("a"))))
    router.fail(ValueError("boom"))
    with pytest.raises(ValueError, match="boom"):
        _ = next(reader).output


# async ---------------------------------------------------------------------------------------


def test_async_messages():
    """Deltas by `async for`, wholes by `await`, from any number of readers."""

    async def main():
        message = await anext(shown_async(*written("a", "b")))
        tokens = [token async for token in message.text]
        calls = [call async for call in message.tool_calls]
        wholes = await message.text, await message.tool_calls, await message, await message.output
        return tokens, calls, *wholes

    tokens, calls, text, no_calls, message, output = asyncio.run(main())
    assert (tokens, calls, text, no_calls) == (["a", "b"], [], "ab", [])
    assert message == output == {"role": "assistant", "content": "ab", "id": "m1"}


def test_async_readers_at_the_same_time():
    """Text and raw events are read side by side."""

    async def main():
        message = await anext(shown_async(*written("a", "b")))

        async def everything(items):
            return [item async for item in items]

        return await asyncio.gather(everything(message.text), everything(message.text), everything(message))

    one, two, events = asyncio.run(main())
    assert one == two == ["a", "b"]
    assert events == list(written("a", "b"))


def test_async_unfinished_and_failed_messages():
    """Unfinished: None and the text so far. Failed: the error."""

    async def main():
        message = await anext(shown_async(*list(written("a", "b"))[:4]))
        unfinished = await message.output, await message.text, message.done
        failing = await anext(shown_async(*list(written("a"))[:3], {"event": "error", "message": "boom"}))
        with pytest.raises(RuntimeError, match="boom"):
            await failing
        async with failing:
            pass
        return unfinished

    assert asyncio.run(main()) == (None, "ab", False)


# in a run ------------------------------------------------------------------------------------


def test_transformers_may_rewrite_tokens():
    """What an early transformer changes is what readers get."""

    class Loud(StreamTransformer):
        before_builtins = True

        def init(self):
            return {}

        def process(self, event):
            payload = event["params"]["data"][0]
            if payload.get("event") == "content-block-delta":
                payload["delta"]["text"] = payload["delta"]["text"].upper()
            return True

    transformer = MessagesTransformer()
    router = EventRouter(factories=[lambda scope: transformer, Loud])
    reader = iter(transformer.channel)
    for payload in list(written("a", "b"))[:4]:
        router.push(said(payload))
    assert repr(next(reader).text) == "'AB'"


def test_a_run_without_messages_has_an_empty_projection(runs):
    """It ends with the run."""

    @entrypoint()
    def flow(x):
        return x

    run = runs.open(flow, 1)
    assert (list(run.messages), run.output) == ([], 1)
