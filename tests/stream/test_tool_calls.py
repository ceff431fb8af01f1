"""`run.tool_calls`: calls of tools, as they run."""

from __future__ import annotations

import asyncio

import pytest

from perdure.stream import ToolCallTransformer
from perdure.stream.router import EventRouter
from stream.events import event


def told(*payloads, ns=(), end=None, is_async=False):
    """The calls that come of some payloads."""
    transformer = ToolCallTransformer()
    router = EventRouter([transformer], is_async=is_async)
    events = iter([event("tools", payload, ns) for payload in payloads])

    def pump():
        item = next(events, None)
        if item is not None:
            router.push(item)
        elif end is not None:
            router.fail(end)
        else:
            router.close()
        return not router.ended

    router.bind_pump(pump)
    return iter(transformer.channel)


STARTED = {"event": "tool-started", "tool_call_id": "c", "tool_name": "search", "input": {"q": 1}}


def delta(piece):
    return {"event": "tool-output-delta", "tool_call_id": "c", "delta": piece}


def finished(output):
    return {"event": "tool-finished", "tool_call_id": "c", "output": output}


def test_a_call_appears_when_it_starts():
    """With what it was given."""
    call = next(told(STARTED, finished(1)))
    assert (call.tool_call_id, call.tool_name, call.input) == ("c", "search", {"q": 1})
    assert (call.completed, call.output, call.error) == (False, None, None)


def test_pieces_of_output_come_as_the_tool_writes_them():
    """By iterating the call."""
    calls = told(STARTED, delta("a"), delta("b"), finished("ab"))
    call = next(calls)
    assert list(call) == ["a", "b"]
    assert (call.output, call.completed) == ("ab", True)


class ToolMessage:
    type = "tool"
    content = "42"


@pytest.mark.parametrize(
    "output",
    [
        ToolMessage(),
        {"type": "constructor", "id": ["langchain", "ToolMessage"], "kwargs": {"content": "42"}},
        "42",
    ],
)
def test_the_output_is_what_the_tool_said(output):
    """Of a tool message, in either form, its content."""
    (call,) = told(STARTED, finished(output))
    assert call.output == "42"


def test_a_failed_call_has_its_error():
    """As text, and no output."""
    (call,) = told(STARTED, {"event": "tool-error", "tool_call_id": "c", "message": "boom"})
    assert (call.error, call.output, call.completed) == ("boom", None, True)


def test_calls_that_are_open_end_with_the_run():
    """Without an output; with the error that ended a failed run."""
    (call,) = told(STARTED)
    assert (call.completed, call.output, call.error) == (True, None, None)
    calls = told(STARTED, end=ValueError("boom"))
    call = next(calls)
    assert list(call) == []
    assert call.error == "boom"


def test_calls_of_other_graphs_are_not_shown():
    """Those are on their graphs' handles."""
    assert list(told(STARTED, ns=("sub:1",))) == []


def test_pieces_of_unknown_calls_are_left_out():
    """A call that started out of sight does nothing."""
    assert list(told(delta("a"), finished(1))) == []


def test_async_calls():
    """Pieces by `async for`."""

    async def main():
        transformer = ToolCallTransformer()
        router = EventRouter([transformer], is_async=True)
        events = iter([event("tools", payload) for payload in (STARTED, delta("a"), finished("a"))])

        async def pump():
            item = next(events, None)
            await (router.aclose() if item is None else router.apush(item))
            return item is not None

        router.bind_apump(pump)
        return [[piece async for piece in call] async for call in transformer.channel]

    assert asyncio.run(main()) == [["a"]]
