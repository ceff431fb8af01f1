"""Limited nodes and LangChain: its events are progress, and what it would run on a thread is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.callbacks.base import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough

from perdure.engine.limits import Watch
from perdure.graph import START, StateGraph
from perdure.types import TimeoutPolicy

pytestmark = pytest.mark.langchain


@pytest.fixture
def signs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The signs of progress that watches were told of."""
    told: list[str] = []
    plain = Watch.progress

    def noted(self: Watch) -> None:
        told.append("progress")
        plain(self)

    monkeypatch.setattr(Watch, "progress", noted)
    return told


def around(node: Any, **options: Any) -> Any:
    return StateGraph(dict).add_node("node", node, **options).add_edge(START, "node").compile()


async def model(state):
    chat = GenericFakeChatModel(messages=iter([AIMessage("one two three")]))
    return {"text": [chunk.content async for chunk in chat.astream("go")]}


async def chain(state):
    return await RunnableLambda(lambda value: value).ainvoke(state)


IDLE = TimeoutPolicy(idle_timeout=60.0)


class Tracer(BaseCallbackHandler):
    """Somebody else's handler, which makes runs be traced."""


@pytest.mark.parametrize("config", [{}, {"callbacks": [Tracer()]}], ids=["plain", "traced"])
@pytest.mark.parametrize(("node", "least"), [(model, 3), (chain, 2)])
def test_events_of_langchain_are_progress(signs, node, least, config):
    """Tokens of a model, begins and ends of a Runnable; traced or not."""
    asyncio.run(around(node, timeout=IDLE).ainvoke({}, config))
    assert len(signs) >= least


def test_events_inside_a_subgraph_are_progress(signs):
    """A model in a nested run tells the watch of the node around it."""
    asyncio.run(around(around(model), timeout=IDLE).ainvoke({}))
    assert len(signs) > 3


def test_without_a_limit_nobody_listens(signs):
    """Nothing is told where there is no watch."""
    asyncio.run(around(model).ainvoke({}))
    assert signs == []


def sync_step(value):
    return value


async def async_step(value):
    return value


class OnThreads(Runnable[Any, Any]):
    """A Runnable that only knows the sync way."""

    def invoke(self, input, config=None, **kwargs):
        return input


STOPPABLE = [
    RunnableLambda(async_step),
    RunnableLambda(sync_step, afunc=async_step),
    RunnableLambda(async_step) | RunnablePassthrough(),
    {"a": RunnableLambda(async_step)},
]
ON_THREADS = [
    RunnableLambda(sync_step),
    RunnableLambda(async_step) | sync_step,
    {"a": RunnableLambda(async_step), "b": RunnableLambda(sync_step)},
    OnThreads(),
]


@pytest.mark.parametrize("node", STOPPABLE)
def test_a_runnable_that_awaits_may_be_limited(node):
    """All of its parts can be cancelled."""
    asyncio.run(around(node, timeout=60.0).ainvoke({}))


@pytest.mark.parametrize("node", ON_THREADS)
def test_a_runnable_with_a_sync_part_is_refused(node):
    """It would go on, on a thread, after its time."""
    with pytest.raises(ValueError, match="only supported for async nodes"):
        around(node, timeout=60.0)
