"""Parts of a user interface are pushed, merged and taken away by id."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import ContextError
from perdure.graph.ui import delete_ui_message, push_ui_message, ui_message_reducer
from values.scope import NotedScope, inside


def shown(id: str, merge: bool = False, **props: Any) -> Any:
    return {"type": "ui", "id": id, "name": "card", "props": props, "metadata": {"merge": merge}}


def gone(id: str) -> Any:
    return {"type": "remove-ui", "id": id}


def test_a_pushed_component_is_streamed_and_written() -> None:
    """The event goes to the custom stream and to the state, with what is known of the run."""
    config: Any = {"run_id": "r", "tags": ["t"], "run_name": "graph"}
    with inside(NotedScope(config)) as scope:
        event = push_ui_message("card", {"a": 1}, metadata={"more": 2}, message={"id": "m"})
    assert event == {
        "type": "ui",
        "id": "id-1",
        "name": "card",
        "props": {"a": 1},
        "metadata": {
            "merge": False,
            "run_id": "r",
            "tags": ["t"],
            "name": "graph",
            "more": 2,
            "message_id": "m",
        },
    }
    assert scope.custom == [event]
    assert scope.written == [("ui", event)]


def test_a_component_may_be_shown_without_being_kept() -> None:
    """Without a key to write to, the event is only streamed."""
    with inside(NotedScope()) as scope:
        event = push_ui_message("card", {}, id="1", state_key=None)
    assert (event["id"], scope.custom, scope.written) == ("1", [event], [])


def test_a_component_belongs_to_a_message_object() -> None:
    """Messages may be objects with an id, too."""

    class Message:
        id = "m"

    with inside(NotedScope()):
        assert push_ui_message("card", {}, message=Message())["metadata"]["message_id"] == "m"


def test_delete() -> None:
    """A removal is streamed and written."""
    with inside(NotedScope()) as scope:
        event = delete_ui_message("1", state_key="parts")
    assert event == gone("1")
    assert (scope.custom, scope.written) == ([event], [("parts", event)])


@pytest.mark.parametrize("call", [lambda: push_ui_message("card", {}), lambda: delete_ui_message("1")])
def test_outside_of_a_run(call: Any) -> None:
    """There is nobody to show anything to outside of a run."""
    with pytest.raises(ContextError):
        call()


@pytest.mark.parametrize(
    ("left", "right", "merged"),
    [
        ([], shown("1"), [shown("1")]),
        (shown("1"), [shown("2")], [shown("1"), shown("2")]),
        ([shown("1", a=1), shown("2")], shown("1", b=2), [shown("1", b=2), shown("2")]),
        ([shown("1", a=1, b=1)], shown("1", merge=True, b=2), [shown("1", merge=True, a=1, b=2)]),
        ([shown("1"), shown("2")], gone("1"), [shown("2")]),
        ([shown("1")], [gone("1"), shown("1", a=1)], [shown("1", a=1)]),
        ([], [shown("1"), gone("1")], []),
    ],
)
def test_reducer(left: Any, right: Any, merged: list[Any]) -> None:
    """Components are merged by id as messages are; `merge` adds props."""
    assert ui_message_reducer(left, right) == merged


def test_removing_what_is_not_there() -> None:
    """A removal of an unknown id is an error that names it."""
    with pytest.raises(ValueError, match=r"ID that doesn't exist \('9'\)"):
        ui_message_reducer([shown("1")], gone("9"))
