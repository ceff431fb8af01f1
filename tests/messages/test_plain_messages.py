"""Without LangChain a conversation is a list of dicts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.graph import message as door
from perdure.graph.message import REMOVE_ALL_MESSAGES, add_messages, messages_delta_reducer, push_message
from perdure.graph.messages_plain import KIND
from values.scope import NotedScope, inside


@pytest.fixture(autouse=True, scope="module")
def without_langchain():
    """The tests of this file see an environment in which langchain-core is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "kind", lambda: KIND)
        yield


def said(id: str, content: str = "hi", role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": content, "id": id}


def remove(id: str) -> dict[str, Any]:
    return {"role": "remove", "id": id}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("hi", {"role": "user", "content": "hi"}),
        (("user", "hi"), {"role": "user", "content": "hi"}),
        (("human", "hi"), {"role": "user", "content": "hi"}),
        (("ai", "hi"), {"role": "assistant", "content": "hi"}),
        (["system", "hi"], {"role": "system", "content": "hi"}),
        (
            {"role": "tool", "content": [], "tool_call_id": "1"},
            {"role": "tool", "content": [], "tool_call_id": "1"},
        ),
    ],
)
def test_what_stands_for_a_message(given: Any, message: dict[str, Any]) -> None:
    """Strings, pairs and dicts become dicts with an id."""
    (added,) = add_messages([], [given])
    assert added.pop("id")
    assert added == message


@pytest.mark.parametrize("given", [5, None, ("a", "b", "c"), object()], ids=["5", "none", "abc", "object"])
def test_what_does_not(given: Any) -> None:
    """Anything else is refused, with what there is."""
    with pytest.raises(TypeError, match="is no message: give a dict with role and content"):
        add_messages([], [given])


def test_given_dicts_are_left_alone() -> None:
    """The id is put into a copy; a message that has one is taken as it is."""
    bare = {"role": "user", "content": "hi"}
    known = said("1")
    added = add_messages([], [bare, known])
    assert "id" not in bare
    assert added[1] is known


def test_messages_of_the_conversation_get_ids_too() -> None:
    """A message that came into the state without an id is given one."""
    assert add_messages([{"role": "user", "content": "hi"}], [])[0]["id"]


def test_ids_come_from_the_run() -> None:
    """Inside a run ids are those that a replay makes again."""
    with inside(NotedScope()):
        assert [message["id"] for message in add_messages([], ["a", "b"])] == ["id-1", "id-2"]


def test_the_same_id_replaces_in_place() -> None:
    """A message with a known id takes the place of the old one."""
    merged = add_messages([said("1"), said("2")], said("1", "new"))
    assert merged == [said("1", "new"), said("2")]


def test_the_last_of_equal_new_ids_counts() -> None:
    """New messages replace each other, too."""
    assert add_messages([], [said("1"), said("1", "new")]) == [said("1", "new")]


def test_removal() -> None:
    """A removal deletes the message with its id, also one that is as new."""
    assert add_messages([said("1"), said("2")], remove("1")) == [said("2")]
    assert add_messages([], [said("1"), remove("1")]) == []


def test_a_message_after_its_removal_takes_its_place() -> None:
    """What is removed and said again in one go stays where it was."""
    merged = add_messages([said("1"), said("2")], [remove("1"), said("1", "new")])
    assert merged == [said("1", "new"), said("2")]


def test_removing_what_is_not_there() -> None:
    """A removal of an unknown id is an error that names it."""
    with pytest.raises(ValueError, match=r"ID that doesn't exist \('9'\)"):
        add_messages([said("1")], remove("9"))


def test_clearing() -> None:
    """The last clearing removes all before it; what follows is the conversation."""
    new = [said("2"), remove(REMOVE_ALL_MESSAGES), said("3"), remove(REMOVE_ALL_MESSAGES), said("4")]
    assert add_messages([said("1")], new) == [said("4")]
    assert add_messages([said("1")], remove(REMOVE_ALL_MESSAGES)) == []


def test_the_old_list_is_left_alone() -> None:
    """Merging makes a new list."""
    left = [said("1")]
    add_messages(left, [said("1", "new"), said("2")])
    assert left == [said("1")]


@pytest.mark.parametrize(("left", "right", "named"), [(None, [], "right"), ([], None, "left")])
def test_one_side_alone(left: Any, right: Any, named: str) -> None:
    """One argument without the other is an error that says which one was given."""
    with pytest.raises(ValueError, match=f"Only received: '{named}'"):
        add_messages(left, right)


def test_without_arguments_it_is_a_reducer() -> None:
    """Called without messages it returns a function of two arguments."""
    assert add_messages()([said("1")], said("2")) == [said("1"), said("2")]


def test_unknown_format() -> None:
    """There is one format."""
    with pytest.raises(ValueError, match="Unrecognized format='x'"):
        add_messages([], [], format="x")  # type: ignore[call-overload]


def test_the_format_needs_langchain() -> None:
    """Converting contents says what has to be installed."""
    with pytest.raises(ImportError, match="needs langchain-core"):
        add_messages(format="langchain-openai")([], ["hi"])


messages = st.builds(said, st.sampled_from("abc"), st.text(max_size=2))


@given(writes=st.lists(st.lists(messages, max_size=3), max_size=5), cut=st.integers(0, 5))
def test_batches_do_not_matter(writes: list[list[Any]], cut: int) -> None:
    """The reducer of many writes gives the same however they are cut into batches."""
    at_once = messages_delta_reducer([], writes)
    assert at_once == messages_delta_reducer(messages_delta_reducer([], writes[:cut]), writes[cut:])


@given(left=st.lists(messages, max_size=5), right=st.lists(messages, max_size=5))
def test_a_conversation_has_each_id_once(left: list[Any], right: list[Any]) -> None:
    """Order is that of first appearance, content that of the last."""
    merged = add_messages(add_messages([], left), right)
    last = {message["id"]: message for message in [*left, *right]}
    assert [message["id"] for message in merged] == list(dict.fromkeys(m["id"] for m in [*left, *right]))
    assert all(message == last[message["id"]] for message in merged)


# -- push_message


def test_push() -> None:
    """A pushed message is shown and written."""
    with inside(NotedScope()) as scope:
        assert push_message(said("1")) == said("1")
    assert (scope.messages, scope.written) == ([said("1")], [("messages", said("1"))])


def test_push_to_another_key_or_none() -> None:
    """The key to write to is the caller's choice."""
    with inside(NotedScope()) as scope:
        push_message(said("1"), state_key="talk")
        push_message(said("2"), state_key=None)
    assert len(scope.messages) == 2
    assert scope.written == [("talk", said("1"))]


def test_push_needs_an_id() -> None:
    """A message that could not be known again is refused."""
    with inside(NotedScope()) as scope, pytest.raises(ValueError, match="Message ID is required"):
        push_message("hi")
    assert scope.messages == []
