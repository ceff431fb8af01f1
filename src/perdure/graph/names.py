"""The names under which a graph's own channels and helper nodes lie beside the user's."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.constants import END, START, TASKS

ROOT = "__root__"
"""The one channel of a graph whose state is a single value."""
DEFAULT_HANDLER = "__default_error_handler__"
"""The node that takes failures of nodes without a handler of their own."""

RESERVED = frozenset(
    (
        START,
        END,
        TASKS,
        "__input__",
        "__interrupt__",
        "__resume__",
        "__error__",
        "__error_source_node__",
        "__no_writes__",
        "__return__",
        "__previous__",
        "__pregel_pull",
        "__pregel_push",
        "__overwrite__",
        "__parent__",
        "__copy__",
        "__scheduled__",
    )
)
"""What neither a node nor a state key may be called: runs record their own facts so."""

_OWN_CHANNELS = ("branch:to:", "join:")


def trigger_of(node: str) -> str:
    """The channel that an edge to `node` writes."""
    return f"branch:to:{node}"


def join_of(starts: Sequence[str], end: str) -> str:
    """The channel in which `starts` are collected until all of them are through."""
    return f"join:{'+'.join(starts)}:{end}"


def handler_of(node: str) -> str:
    """The node that takes the failures of `node`."""
    return f"__error_handler__{node}"


def is_reserved_key(key: str) -> bool:
    """Whether a state key would collide with a channel that the graph makes for itself."""
    return key in RESERVED or key.startswith(_OWN_CHANNELS)
