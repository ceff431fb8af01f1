"""The Python examples of the page on durable execution, with the import root changed."""

import asyncio
import logging
import os
import signal
from typing import NotRequired

import pytest
import requests
from langchain_core.utils.uuid import uuid7
from typing_extensions import TypedDict

from perdure.checkpoint.memory import InMemorySaver
from perdure.errors import GraphDrained
from perdure.func import task
from perdure.graph import END, START, StateGraph
from perdure.runtime import RunControl, Runtime

pytestmark = pytest.mark.langchain

log = logging.getLogger(__name__)


def new_thread():
    thread_id = str(uuid7())
    return {"configurable": {"thread_id": thread_id}}


def test_durability_is_given_to_any_execution_method():
    """`graph.stream(..., durability="sync")`, and the two other modes."""

    class State(TypedDict):
        input: str

    builder = StateGraph(State)
    builder.add_node("node", lambda state: {"input": state["input"].upper()})
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=InMemorySaver())
    for durability in ("exit", "async", "sync"):
        config = new_thread()
        chunks = list(graph.stream({"input": "test"}, config, durability=durability))
        assert chunks == [{"node": {"input": "TEST"}}]
        assert graph.invoke({"input": "test"}, config, durability=durability) == {"input": "TEST"}


def test_original_version(site):
    """A node that makes the API request itself."""

    class State(TypedDict):
        url: str
        result: NotRequired[str]

    def call_api(state: State):
        """Example node that makes an API request."""
        result = requests.get(state["url"]).text[:100]
        return {"result": result}

    builder = StateGraph(State)
    builder.add_node("call_api", call_api)

    builder.add_edge(START, "call_api")
    builder.add_edge("call_api", END)

    checkpointer = InMemorySaver()

    graph = builder.compile(checkpointer=checkpointer)

    thread_id = str(uuid7())
    config = {"configurable": {"thread_id": thread_id}}

    result = graph.invoke({"url": site.url}, config)

    assert result["url"] == site.url
    assert result["result"].startswith("<!doctype html>")
    assert len(result["result"]) == 100
    assert site.asked == ["/"]


def test_version_with_tasks(site):
    """A node that starts a task for each URL. (The page's state lacks the key `results`: the
    caller is warned and gets the URLs alone.)"""

    class State(TypedDict):
        urls: list[str]
        result: NotRequired[list[str]]

    @task
    def _make_request(url: str):
        """Make a request."""
        return requests.get(url).text[:100]

    def call_api(state: State):
        """Example node that makes an API request."""
        requests = [_make_request(url) for url in state["urls"]]
        results = [request.result() for request in requests]
        return {"results": results}

    builder = StateGraph(State)
    builder.add_node("call_api", call_api)

    builder.add_edge(START, "call_api")
    builder.add_edge("call_api", END)

    checkpointer = InMemorySaver()

    graph = builder.compile(checkpointer=checkpointer)

    thread_id = str(uuid7())
    config = {"configurable": {"thread_id": thread_id}}

    with pytest.warns(UserWarning, match="results"):
        result = graph.invoke({"urls": [site.url]}, config)

    assert result == {"urls": [site.url]}
    assert site.asked == ["/"]


def three_steps(saver, ran, control=None):
    """A graph whose first step asks for a drain, as a supervisor would from outside."""

    class State(TypedDict):
        steps: list[str]

    def node(name):
        def run(state: State):
            ran.append(name)
            if control is not None and name == "one":
                control.request_drain("sigterm")
            return {"steps": [*state["steps"], name]}

        return run

    builder = StateGraph(State)
    builder.add_sequence([(name, node(name)) for name in ("one", "two", "three")])
    builder.add_edge(START, "one")
    return builder.compile(checkpointer=saver)


def test_graceful_shutdown_and_resume():
    """Drain, catch GraphDrained, resume with invoke(None) on the same config."""
    ran, caught = [], []
    control = RunControl()
    inputs, config = {"steps": []}, new_thread()
    graph = three_steps(InMemorySaver(), ran, control)

    try:
        result = graph.invoke(inputs, config, control=control)
    except GraphDrained as e:
        caught.append(f"Drained: {e.reason}")

    assert caught == ["Drained: sigterm"]
    assert ran == ["one"]

    result = graph.invoke(None, config)

    assert result == {"steps": ["one", "two", "three"]}
    assert ran == ["one", "two", "three"]


def test_reading_the_drain_state_in_a_node():
    """`runtime.drain_requested` and `runtime.drain_reason` adapt what a node does."""

    class State(TypedDict, total=False):
        status: str
        reason: str | None

    async def do_work():
        return "done"

    async def my_node(state: State, runtime: Runtime) -> State:
        if runtime.drain_requested:
            return {"status": "skipped", "reason": runtime.drain_reason}
        return {"status": await do_work()}

    async def first(state: State, runtime: Runtime) -> State:
        runtime.control.request_drain("reclaimed")
        return await my_node(state, runtime)

    def graph_of(node):
        builder = StateGraph(State)
        builder.add_node("node", node)
        builder.add_edge(START, "node")
        return builder.compile()

    assert asyncio.run(graph_of(my_node).ainvoke({})) == {"status": "done"}
    skipped = asyncio.run(graph_of(first).ainvoke({}))
    assert skipped == {"status": "skipped", "reason": "reclaimed"}


def test_sigterm_hook(caplog):
    """The recommended pattern: a signal handler that requests the drain."""
    ran = []

    class State(TypedDict):
        steps: list[str]

    def one(state: State):
        ran.append("one")
        os.kill(os.getpid(), signal.SIGTERM)
        return {"steps": ["one"]}

    def two(state: State):
        ran.append("two")
        return {"steps": [*state["steps"], "two"]}

    builder = StateGraph(State)
    builder.add_sequence([("one", one), ("two", two)])
    builder.add_edge(START, "one")
    graph = builder.compile(checkpointer=InMemorySaver())
    inputs, config = {"steps": []}, new_thread()

    control = RunControl()
    before = signal.signal(signal.SIGTERM, lambda *_: control.request_drain("sigterm"))

    try:
        with caplog.at_level(logging.INFO):
            try:
                graph.invoke(inputs, config, control=control)
            except GraphDrained as e:
                log.info("graph drained: %s", e.reason)
    finally:
        signal.signal(signal.SIGTERM, before)

    assert "graph drained: sigterm" in caplog.text
    assert ran == ["one"]
    assert graph.invoke(None, config) == {"steps": ["one", "two"]}
