"""What LangChain code finds around it when a workflow calls it, and what its handlers hear."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from typing_extensions import TypedDict

from perdure import START, Command, StateGraph, entrypoint, interrupt, task
from perdure.checkpoint.memory import InMemorySaver
from perdure.types import RetryPolicy

pytestmark = pytest.mark.langchain


class State(TypedDict):
    x: Any


def model() -> GenericFakeChatModel:
    return GenericFakeChatModel(messages=iter([AIMessage("hello world")] * 9))


class Heard(BaseCallbackHandler):
    """Notes every chain and model run: (what, name, parent's name)."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.said: list[tuple[str, str, str | None]] = []
        self.starts: dict[str, dict[str, Any]] = {}

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, **kw: Any) -> None:
        name = self.names[run_id] = str(kw["name"])
        self.starts[name] = {"inputs": inputs, **kw}
        self.said.append(("start", name, self.names.get(kw.get("parent_run_id"))))

    def on_chain_end(self, outputs: Any, *, run_id: Any, **kw: Any) -> None:
        self.said.append(("end", self.names[run_id], outputs))

    def on_chain_error(self, error: BaseException, *, run_id: Any, **kw: Any) -> None:
        self.said.append(("error", self.names[run_id], type(error).__name__))

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: Any, **kw: Any) -> None:
        self.starts["model"] = kw
        self.said.append(("model", "model", self.names.get(kw.get("parent_run_id"))))

    def tree(self) -> list[tuple[str, str | None]]:
        return [(name, about) for what, name, about in self.said if what in ("start", "model")]


def graph(*nodes: Any, name: str = "G", **kw: Any) -> Any:
    builder = StateGraph(State)
    names = [node.__name__ for node in nodes]
    for each, node in zip(names, nodes, strict=True):
        builder.add_node(each, node, **kw)
    for before, after in zip([START, *names], names, strict=False):
        builder.add_edge(before, after)
    return builder.compile(name=name)


def test_a_model_in_a_node_inherits_callbacks(drive: Any) -> None:
    """Its run is beneath the node's, and that beneath the graph's."""
    heard = Heard()
    ask = drive.fn(lambda state: {"x": model().invoke("hi").content})
    ask.__name__ = "ask"
    drive.invoke(graph(ask), {"x": 0}, {"callbacks": [heard]})
    assert heard.tree() == [("G", None), ("ask", "G"), ("model", "ask")]


def test_a_model_inherits_tags_and_metadata(drive: Any) -> None:
    """Those of the caller, and where in the run it is called."""
    heard = Heard()

    def ask(state: State) -> State:
        model().invoke("hi")
        return state

    config = {"tags": ["mine"], "metadata": {"who": "me"}, "configurable": {"thread_id": "7"}}
    drive.invoke(graph(ask), {"x": 0}, {**config, "callbacks": [heard]})
    metadata = heard.starts["model"]["metadata"]
    assert "mine" in heard.starts["model"]["tags"]
    assert (metadata["who"], metadata["thread_id"]) == ("me", "7")
    assert (metadata["langgraph_node"], metadata["langgraph_step"]) == ("ask", 1)
    assert metadata["langgraph_path"] == ("__pregel_pull", "ask")
    assert metadata["langgraph_checkpoint_ns"].startswith("ask:")


def test_the_injected_config_may_be_passed_on(drive: Any) -> None:
    """A model that is given it is reported once, beneath the node."""
    heard = Heard()

    def ask(state: State, config: RunnableConfig) -> State:
        model().invoke("hi", config)
        return state

    drive.invoke(graph(ask), {"x": 0}, {"callbacks": [heard]})
    assert heard.tree() == [("G", None), ("ask", "G"), ("model", "ask")]


def test_tasks_are_beneath_their_callers(drive: Any) -> None:
    """A task that an entrypoint calls, and one that a task calls, show with their arguments."""
    heard = Heard()

    @task
    def inner(n: int) -> int:
        model().invoke("hi")
        return n

    @task
    def outer(n: int) -> int:
        return inner(n + 1).result()

    @entrypoint()
    def flow(n: int) -> int:
        return outer(n).result()

    assert drive.invoke(flow, 1, {"callbacks": [heard]}) == 2
    assert heard.tree()[1:] == [
        ("flow", "LangGraph"), ("outer", "flow"), ("inner", "outer"), ("model", "inner"),
    ]  # fmt: skip
    assert heard.starts["inner"]["inputs"] == {"n": 2}


def test_async_tasks_are_beneath_their_callers() -> None:
    """Also those that run side by side on the event loop."""
    heard = Heard()

    @task
    async def ask(n: int) -> str:
        return str((await model().ainvoke("hi")).content)

    @entrypoint()
    async def flow(n: int) -> list[str]:
        return list(await asyncio.gather(ask(1), ask(2)))

    assert asyncio.run(flow.ainvoke(1, {"callbacks": [heard]})) == ["hello world"] * 2
    assert heard.tree().count(("ask", "flow")) == 2
    assert heard.tree().count(("model", "ask")) == 2


def test_async_handlers_hear_nodes_on_threads() -> None:
    """A handler of coroutines hears of sync nodes of an async run, and of async ones."""
    heard: list[str] = []

    class Slow(AsyncCallbackHandler):
        async def on_chain_start(self, serialized: Any, inputs: Any, **kw: Any) -> None:
            await asyncio.sleep(0)
            heard.append(kw["name"])

    def first(state: State) -> State:
        return state

    async def second(state: State) -> State:
        return state

    asyncio.run(graph(first, second).ainvoke({"x": 0}, {"callbacks": [Slow()]}))
    assert heard == ["G", "first", "second"]


def test_nodes_carry_their_step_as_a_tag(drive: Any) -> None:
    """It is the node's own: what the node calls does not inherit it."""
    heard = Heard()

    def ask(state: State) -> State:
        model().invoke("hi")
        return state

    drive.invoke(graph(ask), {"x": 0}, {"callbacks": [heard]})
    assert heard.starts["ask"]["tags"] == ["graph:step:1"]
    assert "graph:step:1" not in heard.starts["model"]["tags"]


def test_results_are_reported(drive: Any) -> None:
    """A node's is what it returned, the graph's what the caller gets."""
    heard = Heard()

    def more(state: State) -> State:
        return {"x": state["x"] + 1}

    drive.invoke(graph(more), {"x": 0}, {"callbacks": [heard]})
    assert heard.said[-2:] == [("end", "more", {"x": 1}), ("end", "G", {"x": 1})]


def test_errors_are_reported(drive: Any) -> None:
    """Of the node that raised, and of the run that it ended."""
    heard = Heard()

    def bad(state: State) -> State:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        drive.invoke(graph(bad), {"x": 0}, {"callbacks": [heard]})
    assert heard.said[-2:] == [("error", "bad", "ValueError"), ("error", "G", "ValueError")]


def test_each_attempt_is_reported(drive: Any) -> None:
    """A node that is tried again begins again."""
    heard, tries = Heard(), []

    def shaky(state: State) -> State:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("no")
        return state

    policy = RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError)
    drive.invoke(graph(shaky, retry_policy=policy), {"x": 0}, {"callbacks": [heard]})
    assert [(what, about) for what, name, about in heard.said if name == "shaky"] == [
        ("start", "G"), ("error", "ValueError"), ("start", "G"), ("end", {"x": 0}),
    ]  # fmt: skip


def test_a_pause_is_no_failure_of_the_run(drive: Any) -> None:
    """The node is left by a signal; the run ends, and its next one is named as the caller says."""
    heard = Heard()

    @entrypoint(checkpointer=InMemorySaver())
    def flow(n: int) -> Any:
        return interrupt("q")

    config = {"callbacks": [heard], "configurable": {"thread_id": "1"}, "run_name": "mine"}
    drive.invoke(flow, 1, config)
    assert [line[:2] for line in heard.said] == [
        ("start", "mine"), ("start", "flow"), ("error", "flow"), ("end", "mine"),
    ]  # fmt: skip
    drive.invoke(flow, Command(resume="y"), config)
    assert heard.said[-1] == ("end", "mine", "y")


def test_edges_are_beneath_their_nodes(drive: Any) -> None:
    """The function of a conditional edge is a chain run, named like it; its models are beneath it."""
    heard = Heard()

    def route(state: State) -> str:
        model().invoke("hi")
        return "__end__"

    builder = StateGraph(State).add_node("a", lambda state: {"x": 1}).add_edge(START, "a")
    builder.add_conditional_edges("a", route)
    drive.invoke(builder.compile(), {"x": 0}, {"callbacks": [heard]})
    assert heard.tree()[1:] == [("a", "LangGraph"), ("route", "a"), ("model", "route")]


def test_nested_graphs_are_beneath_their_nodes(drive: Any) -> None:
    """One that is a node, and one that a node calls without passing a config."""
    heard = Heard()

    def leaf(state: State) -> State:
        return state

    child = graph(leaf, name="child")

    def calls(state: State) -> Any:
        return child.invoke(state)

    builder = StateGraph(State).add_node("is", child).add_node("calls", calls)
    parent = builder.add_edge(START, "is").add_edge("is", "calls").compile()
    drive.invoke(parent, {"x": 0}, {"callbacks": [heard]})
    assert heard.tree()[1:] == [
        ("is", "LangGraph"), ("child", "is"), ("leaf", "child"),
        ("calls", "LangGraph"), ("child", "calls"), ("leaf", "child"),
    ]  # fmt: skip


def test_a_graph_called_in_a_lambda_is_beneath_it(drive: Any) -> None:
    """It finds handlers and tags where LangChain keeps them."""
    heard = Heard()
    seen: list[Any] = []

    def leaf(state: State, config: RunnableConfig) -> State:
        seen.append(config["tags"])
        return state

    child = graph(leaf)
    chain = RunnableLambda(lambda x: child.invoke({"x": x})).with_config(run_name="chain", tags=["t"])
    chain.invoke(1, {"callbacks": [heard]})
    assert heard.tree() == [("chain", None), ("G", "chain"), ("leaf", "G")]
    assert seen == [["t"]]


def test_a_task_called_in_a_lambda_is_beneath_it(drive: Any) -> None:
    """LangChain code between a node and a task keeps its place in the trace."""
    heard = Heard()

    @task
    def step(n: int) -> int:
        return n

    @entrypoint()
    def flow(n: int) -> Any:
        return RunnableLambda(lambda n: step(n).result()).with_config(run_name="chain").invoke(n)

    drive.invoke(flow, 1, {"callbacks": [heard]})
    assert heard.tree()[1:] == [("flow", "LangGraph"), ("chain", "flow"), ("step", "chain")]


def test_callbacks_of_a_nested_call_join_those_around(drive: Any) -> None:
    """Both handlers hear the nested run."""
    around, own = Heard(), Heard()

    def leaf(state: State) -> State:
        return state

    child = graph(leaf, name="child")

    def calls(state: State) -> Any:
        return child.invoke(state, {"callbacks": [own]})

    drive.invoke(graph(calls), {"x": 0}, {"callbacks": [around]})
    assert [name for name, _ in around.tree()] == ["G", "calls", "child", "leaf"]
    assert [name for name, _ in own.tree()] == ["child", "leaf"]


def test_a_handler_that_raises_breaks_nothing(drive: Any) -> None:
    """LangChain logs its error, and the run goes on."""

    class Bad(BaseCallbackHandler):
        def on_chain_start(self, *args: Any, **kw: Any) -> None:
            raise ValueError("handler")

        on_chain_end = on_chain_start

    def leaf(state: State) -> State:
        return {"x": 1}

    assert drive.invoke(graph(leaf), {"x": 0}, {"callbacks": [Bad()]}) == {"x": 1}


def test_the_variable_is_left_as_it_was(drive: Any) -> None:
    """After a run the caller's own LangChain code is beneath nothing."""
    from langchain_core.runnables.config import var_child_runnable_config

    def leaf(state: State) -> State:
        return state

    drive.invoke(graph(leaf), {"x": 0}, {"callbacks": [Heard()]})
    assert var_child_runnable_config.get() is None


def test_a_stream_that_is_left_is_an_error_of_the_run() -> None:
    """Its chain run ends with what ended the stream."""
    heard = Heard()

    def leaf(state: State) -> State:
        return state

    events = graph(leaf, leaf_two).stream({"x": 0}, {"callbacks": [heard]})
    next(events)
    events.close()
    assert heard.said[-1] == ("error", "G", "GeneratorExit")


def leaf_two(state: State) -> State:
    return state
