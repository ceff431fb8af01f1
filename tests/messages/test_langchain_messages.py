"""With LangChain a conversation is a list of its message objects."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
)

from perdure.graph.message import REMOVE_ALL_MESSAGES, add_messages, push_message
from values.scope import NotedScope, inside

pytestmark = pytest.mark.langchain


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("hi", HumanMessage),
        (("ai", "hi"), AIMessage),
        ({"role": "system", "content": "hi"}, SystemMessage),
        ({"type": "human", "content": "hi"}, HumanMessage),
        (AIMessageChunk("hi"), AIMessage),
    ],
    ids=lambda given: type(given).__name__,
)
def test_what_stands_for_a_message(given: Any, message: type[BaseMessage]) -> None:
    """Whatever LangChain takes for a message becomes one, with an id."""
    (added,) = add_messages([], given)
    assert type(added) is message
    assert added.content == "hi"
    assert added.id


def test_messages_get_ids_in_place() -> None:
    """The objects themselves are given ids, on both sides."""
    old, new = HumanMessage("a"), AIMessage("b")
    assert add_messages([old], new) == [old, new]
    assert old.id and new.id and old.id != new.id


def test_ids_come_from_the_run() -> None:
    """Inside a run ids are those that a replay makes again."""
    with inside(NotedScope()):
        assert add_messages([], ["a"])[0].id == "id-1"


def test_replacing_and_removing() -> None:
    """Known ids are replaced in place, removals delete."""
    left = [HumanMessage("a", id="1"), AIMessage("b", id="2")]
    assert add_messages(left, [AIMessage("c", id="1"), RemoveMessage("2")]) == [AIMessage("c", id="1")]


def test_removals_may_be_dicts() -> None:
    """The plain form of a removal is understood as well."""
    assert add_messages([HumanMessage("a", id="1")], {"role": "remove", "id": "1"}) == []


def test_clearing() -> None:
    """The last clearing removes all before it."""
    new = [AIMessage("x", id="7"), RemoveMessage(REMOVE_ALL_MESSAGES), AIMessage("c", id="1")]
    assert add_messages([HumanMessage("a", id="1")], new) == [AIMessage("c", id="1")]


def test_contents_as_openai_has_them() -> None:
    """The format converts contents and keeps ids."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    (formatted,) = add_messages([], HumanMessage([image], id="1"), format="langchain-openai")
    assert formatted.content == [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    assert formatted.id == "1"


def test_push_converts() -> None:
    """What is pushed is shown and written as a message object."""
    with inside(NotedScope()) as scope:
        pushed = push_message({"role": "assistant", "content": "hi", "id": "1"})
    assert pushed == AIMessage("hi", id="1")
    assert scope.messages == [pushed]
    assert scope.written == [("messages", pushed)]
