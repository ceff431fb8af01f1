"""Workflows as Runnables, to LangChain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from langchain_core.runnables import Runnable


def adopt(kind: type) -> None:
    """Makes a class's objects Runnables: `isinstance` says so, and the class gets those methods
    of theirs that it lacks."""
    Runnable.register(kind)
    for name, value in Runnable.__dict__.items():
        if not name.startswith(("__", "_abc_")) and not hasattr(kind, name):
            setattr(kind, name, value)


def astream_events(
    workflow: Any, input: Any, config: Mapping[str, Any] | None, version: Any, options: Mapping[str, Any]
) -> AsyncIterator[Any]:
    """LangChain's events, versions "v1" and "v2", of a workflow and of all that it calls."""
    events = Runnable.astream_events(workflow, input, cast("Any", config), version=version, **options)
    return cast("AsyncIterator[Any]", events)
