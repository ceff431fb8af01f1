"""What LangChain does below a limited node shows that it makes progress."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.callbacks.base import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

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
