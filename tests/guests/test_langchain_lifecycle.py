"""Handlers that hear of pauses and resumes."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import TypedDict

from perdure import START, Command, StateGraph, entrypoint, interrupt
from perdure.callbacks import (
    GraphCallbackHandler,
    GraphInterruptEvent,
    GraphResumeEvent,
    get_async_graph_callback_manager_for_config,
    get_sync_graph_callback_manager_for_config,
)
from perdure.checkpoint.memory import InMemorySaver
from perdure.errors import GraphDrained
from perdure.runtime import RunControl

pytestmark = pytest.mark.langchain


class State(TypedDict):
    x: Any


class Heard(GraphCallbackHandler):
    """Notes what it hears, and when between the starts and ends of chains."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.runs: dict[str, Any] = {}

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, name: str, **kw: Any) -> None:
        self.runs[name] = run_id
        self.said.append(name)

    def on_interrupt(self, event: GraphInterruptEvent) -> None:
        self.said.append(event)

    def on_resume(self, event: GraphResumeEvent) -> None:
        self.said.append(event)

    def events(self) -> list[Any]:
        return [item for item in self.said if not isinstance(item, str)]


def one(node: Any, name: str = "n", **kw: Any) -> Any:
    return StateGraph(State).add_node(name, node).add_edge(START, name).compile(**kw)


def config(heard: Any) -> Any:
    return {"configurable": {"thread_id": "1"}, "callbacks": [heard]}


def test_a_pause_and_a_resume_are_told(drive: Any) -> None:
    """With the questions, the run and the checkpoint; a resume before its first node."""
    heard = Heard()

    @entrypoint(checkpointer=InMemorySaver())
    def flow(n: int) -> Any:
        return interrupt("q")

    drive.invoke(flow, 1, config(heard))
    (paused,) = heard.events()
    assert isinstance(paused, GraphInterruptEvent)
    assert (paused.status, paused.checkpoint_ns) == ("pending", ())
    assert paused.checkpoint_id
    assert [question.value for question in paused.interrupts] == ["q"]
    assert paused.run_id == heard.runs["LangGraph"]

    heard.said.clear()
    drive.invoke(flow, Command(resume=1), config(heard))
    first, resumed, node = heard.said
    assert (first, node) == ("LangGraph", "flow")
    assert isinstance(resumed, GraphResumeEvent)
    assert (resumed.status, resumed.checkpoint_ns) == ("pending", ())
    assert resumed.checkpoint_id == paused.checkpoint_id


def test_breakpoints_are_told(drive: Any) -> None:
    """By where they are."""
    for where in ("interrupt_before", "interrupt_after"):
        heard = Heard()
        builder = StateGraph(State).add_node("a", lambda state: state).add_node("b", lambda state: state)
        given: Any = {where: ["b"] if where == "interrupt_before" else ["a"]}
        graph = builder.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=InMemorySaver(), **given)
        drive.invoke(graph, {"x": 0}, config(heard))
        assert [(event.status, event.interrupts) for event in heard.events()] == [(where, ())]


def test_a_nested_pause_is_the_roots(drive: Any) -> None:
    """One event when it pauses; one for each graph that goes on."""
    heard = Heard()
    child = one(lambda state: {"x": interrupt("q")}, "leaf")
    graph = one(child, "child", checkpointer=InMemorySaver())
    drive.invoke(graph, {"x": 0}, config(heard))
    assert [event.checkpoint_ns for event in heard.events()] == [()]
    heard.said.clear()
    drive.invoke(graph, Command(resume=1), config(heard))
    assert [len(event.checkpoint_ns) for event in heard.events()] == [0, 1]
    assert heard.events()[1].checkpoint_ns[0].startswith("child:")


def test_a_drain_is_no_pause(drive: Any) -> None:
    """Nobody is asked anything."""
    heard = Heard()
    control = RunControl()

    def node(state: State) -> State:
        control.request_drain()
        return state

    builder = StateGraph(State).add_node("a", node).add_node("b", lambda state: state)
    graph = builder.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=InMemorySaver())
    with pytest.raises(GraphDrained):
        drive.invoke(graph, {"x": 0}, config(heard), control=control)
    assert heard.events() == []


def test_coroutines_may_listen(drive: Any) -> None:
    """Under either driver."""
    heard: list[str] = []

    class Slow(GraphCallbackHandler):
        async def on_interrupt(self, event: GraphInterruptEvent) -> None:
            heard.append("paused")

        async def on_resume(self, event: GraphResumeEvent) -> None:
            heard.append("resumed")

    @entrypoint(checkpointer=InMemorySaver())
    def flow(n: int) -> Any:
        return interrupt("q")

    drive.invoke(flow, 1, config(Slow()))
    drive.invoke(flow, Command(resume=1), config(Slow()))
    assert heard == ["paused", "resumed"]


def test_an_error_of_a_handler_breaks_no_run(drive: Any) -> None:
    """It is logged."""

    class Bad(GraphCallbackHandler):
        def on_interrupt(self, event: GraphInterruptEvent) -> None:
            raise ValueError("handler")

    @entrypoint(checkpointer=InMemorySaver())
    def flow(n: int) -> Any:
        return interrupt("q")

    assert "__interrupt__" in drive.invoke(flow, 1, config(Bad()))


def test_managers_hold_the_handlers_of_a_config() -> None:
    """Only those that hear of pauses and resumes."""
    from langchain_core.callbacks import BaseCallbackHandler

    heard = Heard()
    given = {"callbacks": [BaseCallbackHandler(), heard]}
    manager = get_sync_graph_callback_manager_for_config(given)
    manager.on_resume(GraphResumeEvent(None, "pending", "c", ()))
    assert [type(event) for event in heard.events()] == [GraphResumeEvent]
    assert get_async_graph_callback_manager_for_config(given).handlers == [heard]
