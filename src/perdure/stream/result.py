"""What a run has come to so far: its last values, its questions, how it ended."""

from __future__ import annotations

from typing import Any

from perdure.stream.protocol import ProtocolEvent


class Result:
    """Follows the `values` of one graph, and nothing deeper.

    Args:
        scope: Namespace of the graph.
        keys: The keys that the output has; None for all that `values` shows.
    """

    __slots__ = ("interrupted", "interrupts", "keys", "latest", "scope")

    def __init__(self, scope: tuple[str, ...], keys: tuple[str, ...] | None = None) -> None:
        self.scope = list(scope)
        self.keys = keys
        self.latest: Any = None
        self.interrupts: list[Any] = []
        self.interrupted = False

    def observe(self, event: ProtocolEvent) -> None:
        """Takes an event of the run."""
        if event["method"] != "values":
            return
        params = event["params"]
        if params["namespace"] != self.scope:
            return
        self.latest = params["data"]
        questions = params.get("interrupts")
        if questions:
            self.interrupts.extend(questions)
            self.interrupted = True

    def note(self, mode: str, ns: tuple[str, ...]) -> None:
        """Takes what the engine tells beside the protocol."""
        if mode == "breakpoints" and list(ns) == self.scope:
            self.interrupted = True

    @property
    def output(self) -> Any:
        """The last values, as the output schema has them."""
        if self.keys is None or not isinstance(self.latest, dict):
            return self.latest
        return {key: self.latest[key] for key in self.keys if key in self.latest}


def output_keys(program: Any, options: dict[str, Any]) -> tuple[str, ...] | None:
    """The keys of a program's output; None where the caller named his own or there are none."""
    keys = program.output
    if options.get("output_keys") is not None or isinstance(keys, str):
        return None
    return tuple(keys)
