"""What tools do, read by `stream_mode="tools"`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.tools import tool

from perdure import START, MessagesState, StateGraph, interrupt
from perdure.checkpoint.memory import InMemorySaver
from perdure.ext.langchain.tools import tool_call_writer

pytestmark = pytest.mark.langchain


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    write = tool_call_writer.get()
    if write is not None:
        write("carry")
    return a + b


@tool
def fail(a: int) -> int:
    """Fails."""
    raise ValueError(f"no {a}")


@tool
def ask(a: int) -> Any:
    """Asks."""
    return interrupt("sure?")


def one(node: Any, name: str = "n", **kw: Any) -> Any:
    return StateGraph(MessagesState).add_node(name, node).add_edge(START, name).compile(**kw)


def read(drive: Any, workflow: Any, *args: Any, **kw: Any) -> list[Any]:
    found: list[Any] = drive.stream(workflow, {"messages": "hi"}, *args, stream_mode="tools", **kw)
    return found


def call(of: Any, id: str = "c1", **args: Any) -> Any:
    return of.invoke({"name": of.name, "args": args, "id": id, "type": "tool_call"})


def test_a_tool_starts_shows_parts_and_finishes(drive: Any) -> None:
    """All of it under the id of its call."""
    started, delta, finished = read(drive, one(lambda state: {"messages": [call(add, a=1, b=2)]}))
    assert started == {
        "event": "tool-started", "tool_call_id": "c1", "tool_name": "add", "input": {"a": 1, "b": 2},
    }  # fmt: skip
    assert delta == {"event": "tool-output-delta", "tool_call_id": "c1", "delta": "carry"}
    assert (finished["event"], finished["tool_call_id"]) == ("tool-finished", "c1")
    assert finished["output"].content == "3"


def test_a_tool_called_without_a_call_has_the_runs_id(drive: Any) -> None:
    """Something to know it by there always is."""
    items = read(drive, one(lambda state: add.invoke({"a": 1, "b": 2}) and {}))
    ids = {item["tool_call_id"] for item in items}
    assert len(ids) == 1
    assert len(ids.pop()) == 36


def test_a_tool_error_is_shown(drive: Any) -> None:
    """By its text."""

    def node(state: Any) -> Any:
        with pytest.raises(ValueError, match="no 1"):
            call(fail, a=1)
        return {}

    items = read(drive, one(node))
    assert items[-1] == {"event": "tool-error", "tool_call_id": "c1", "message": "no 1"}


def test_a_tool_that_asks_has_not_ended(drive: Any) -> None:
    """A pause is neither a result nor an error."""
    workflow = one(lambda state: call(ask, a=1), checkpointer=InMemorySaver())
    items = read(drive, workflow, {"configurable": {"thread_id": "1"}})
    assert [item["event"] for item in items] == ["tool-started"]


def test_tools_side_by_side_do_not_mix() -> None:
    """Each part of an output is shown under its own call."""

    @tool
    async def slow(a: int) -> int:
        """Waits a turn."""
        await asyncio.sleep(0)
        write = tool_call_writer.get()
        assert write is not None
        write(a)
        return a

    async def node(state: Any) -> Any:
        calls = [{"name": "slow", "args": {"a": n}, "id": f"c{n}", "type": "tool_call"} for n in range(3)]
        await asyncio.gather(*[slow.ainvoke(call) for call in calls])
        return {}

    async def run() -> list[Any]:
        return [item async for item in one(node).astream({"messages": "hi"}, stream_mode="tools")]

    deltas = [(item["tool_call_id"], item["delta"]) for item in asyncio.run(run()) if "delta" in item]
    assert sorted(deltas) == [("c0", 0), ("c1", 1), ("c2", 2)]


def test_nobody_reads_nothing_is_written(drive: Any) -> None:
    """A tool finds no writer in a run whose `tools` nobody wants."""
    found: list[Any] = []

    @tool
    def look(a: int) -> int:
        """Looks."""
        found.append(tool_call_writer.get())
        return a

    drive.stream(one(lambda state: look.invoke({"a": 1}) and {}), {"messages": "hi"}, stream_mode="updates")
    assert found == [None]


def test_tools_of_a_nested_graph_have_its_namespace(drive: Any) -> None:
    """With `subgraphs`; without, they are hidden."""
    child = one(lambda state: {"messages": [call(add, a=1, b=2)]})
    assert read(drive, one(child, "sub")) == []
    items = read(drive, one(child, "sub"), subgraphs=True)
    assert {ns[0].partition(":")[0] for ns, _ in items} == {"sub"}
