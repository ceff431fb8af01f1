"""Parts of a user interface as state: what a front end shows beside the conversation."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from typing_extensions import TypedDict

from perdure.context import current_scope, new_id

__all__ = [
    "AnyUIMessage",
    "RemoveUIMessage",
    "UIMessage",
    "delete_ui_message",
    "push_ui_message",
    "ui_message_reducer",
]


class UIMessage(TypedDict):
    """A component that the front end shows."""

    type: Literal["ui"]
    id: str
    name: str
    """Which component."""
    props: dict[str, Any]
    metadata: dict[str, Any]
    """`merge`, `run_id`, `tags`, `name`, and `message_id` where it belongs to a message."""


class RemoveUIMessage(TypedDict):
    """That a component is not shown any more."""

    type: Literal["remove-ui"]
    id: str


AnyUIMessage: TypeAlias = UIMessage | RemoveUIMessage


def push_ui_message(
    name: str,
    props: dict[str, Any],
    *,
    id: str | None = None,
    metadata: dict[str, Any] | None = None,
    message: Any = None,
    state_key: str | None = "ui",
    merge: bool = False,
) -> UIMessage:
    """Shows a component: in the `custom` stream at once, and in the state.

    Args:
        id: Of a component that is shown, to change it.
        message: The message it belongs to.
        state_key: Key to write it to; None only streams it.
        merge: Add the props to those of the component that is shown, instead of replacing them.
    """
    scope = current_scope()
    config = scope.config
    message_id = message.get("id") if isinstance(message, dict) else getattr(message, "id", None)
    event: UIMessage = {
        "type": "ui",
        "id": id or new_id(),
        "name": name,
        "props": props,
        "metadata": {
            "merge": merge,
            "run_id": config.get("run_id"),
            "tags": config.get("tags"),
            "name": config.get("run_name"),
            **(metadata or {}),
            **({"message_id": message_id} if message_id else {}),
        },
    }
    scope.writer(event)
    if state_key is not None:
        scope.write(state_key, event)
    return event


def delete_ui_message(id: str, *, state_key: str = "ui") -> RemoveUIMessage:
    """Takes a component away: in the `custom` stream at once, and in the state."""
    scope = current_scope()
    event: RemoveUIMessage = {"type": "remove-ui", "id": id}
    scope.writer(event)
    scope.write(state_key, event)
    return event


def ui_message_reducer(
    left: list[AnyUIMessage] | AnyUIMessage, right: list[AnyUIMessage] | AnyUIMessage
) -> list[AnyUIMessage]:
    """Merges components by id, as `add_messages` does messages; the reducer for a key of them.

    Raises ValueError when a component is removed that is not there.
    """
    merged: list[Any] = list(left) if isinstance(left, list) else [left]
    places = {component["id"]: place for place, component in enumerate(merged)}
    removed: set[str] = set()
    for component in right if isinstance(right, list) else [right]:
        id_ = component["id"]
        if component["type"] == "remove-ui":
            if id_ not in places:
                raise ValueError(f"Attempting to delete a UI message with an ID that doesn't exist ({id_!r})")
            removed.add(id_)
        elif id_ in places:
            removed.discard(id_)
            merged[places[id_]] = _replaced(merged[places[id_]], component)
        else:
            places[id_] = len(merged)
            merged.append(component)
    return [component for component in merged if component["id"] not in removed]


def _replaced(old: UIMessage, new: UIMessage) -> UIMessage:
    if not new.get("metadata", {}).get("merge"):
        return new
    return {**new, "props": {**old["props"], **new["props"]}}
