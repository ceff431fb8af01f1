"""A scope that notes what user code asks of it, for tests of the doors onto it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from perdure.config import RunnableConfig
from perdure.context import scope_var
from perdure.runtime import Runtime


class NotedScope:
    """Answers from what it was given; keeps what it was told."""

    def __init__(self, config: RunnableConfig | None = None, **runtime: Any) -> None:
        self.config: RunnableConfig = config or {}
        self.runtime: Runtime[Any] = Runtime(**runtime)
        self.written: list[tuple[str, Any]] = []
        self.messages: list[Any] = []
        self.custom: list[Any] = []
        self.asked: list[tuple[Any, Any]] = []
        self.ids = 0

    def writer(self, chunk: Any, /) -> None:
        self.custom.append(chunk)

    def call(self, task: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return task(*args, **kwargs)

    def interrupt(self, value: Any, response_schema: Any = None) -> Any:
        self.asked.append((value, response_schema))
        return "answer"

    def write(self, channel: str, value: Any) -> None:
        self.written.append((channel, value))

    def message(self, message: Any) -> None:
        self.messages.append(message)

    def new_id(self) -> str:
        self.ids += 1
        return f"id-{self.ids}"


@contextmanager
def inside(scope: NotedScope) -> Iterator[NotedScope]:
    """The body runs as if it were a step of a run with this scope."""
    token = scope_var.set(scope)
    try:
        yield scope
    finally:
        scope_var.reset(token)
