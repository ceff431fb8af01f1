"""A run's tasks in the terminal, as they start and end.

The rows are kept by `Rows`, which knows nothing of terminals. `Lines` writes a line whenever a
row changes; `Table` redraws a table in place, where rich is installed and the output is a
terminal.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TextIO, TypeAlias

from perdure.stream.protocol import ProtocolEvent
from perdure.stream.transformer import Scope, StreamTransformer

Status: TypeAlias = Literal["running", "done", "failed", "paused", "recorded", "stopped"]

MARKS: dict[Status, str] = {
    "running": "▶", "done": "✔", "failed": "✘", "paused": "⏸", "recorded": "↺", "stopped": "■",
}  # fmt: skip


@dataclass(slots=True)
class Row:
    """A task."""

    id: str
    name: str
    depth: int
    began: float
    """Seconds since the first task began."""
    status: Status = "running"
    ended: float | None = None
    note: str = ""


class View(Protocol):
    """Shows rows."""

    def changed(self, row: Row, rows: list[Row]) -> None:
        """A row is new, or its status has changed."""
        ...

    def close(self) -> None:
        """No row changes any more."""
        ...


@dataclass
class Rows:
    """The tasks of a run, and what has become of each."""

    clock: Callable[[], float] = time.monotonic
    rows: list[Row] = field(default_factory=list)
    began: float | None = None
    _running: dict[str, Row] = field(default_factory=dict)
    _recorded: set[str] = field(default_factory=set)
    """Tasks that are on record, and start next."""

    def recorded(self, id: str) -> None:
        """What the task with this id gave is on record."""
        self._recorded.add(id)

    def take(self, event: ProtocolEvent) -> Row | None:
        """The row that an event changes, if it changes one."""
        if self.began is None:
            self.began = self.clock()
        if event["method"] != "tasks":
            return None
        data = event["params"]["data"]
        if "result" in data:
            return self._ended(data)
        row = Row(data["id"], data["name"], self._depth(event, data), self.clock() - self.began)
        if row.id in self._recorded:
            self._recorded.remove(row.id)
            row.status = "recorded"
        else:
            self._running[row.id] = row
        self.rows.append(row)
        return row

    def _depth(self, event: ProtocolEvent, data: dict[str, Any]) -> int:
        """Tasks of graphs inside stand below the graph; calls stand below their node."""
        called = tuple(data.get("triggers") or ()) == ("__pregel_push",)
        return len(event["params"]["namespace"]) + called

    def _ended(self, data: dict[str, Any]) -> Row | None:
        row = self._running.pop(data["id"], None)
        if row is None:
            return None
        assert self.began is not None
        row.ended = self.clock() - self.began
        row.status, row.note = _outcome(data)
        return row

    def finish(self, status: Status) -> list[Row]:
        """The rows that never ended."""
        left, self._running = list(self._running.values()), {}
        for row in left:
            row.status = status
        return left


def _outcome(data: dict[str, Any]) -> tuple[Status, str]:
    if data.get("error") is not None:
        return "failed", _short(repr(data["error"]))
    questions = [repr(question["value"]) for question in data.get("interrupts") or ()]
    return ("paused", _short(", ".join(questions))) if questions else ("done", "")


_WIDTH = 72


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


class Lines:
    """One line for each change: for log files, and terminals without rich."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def changed(self, row: Row, rows: list[Row]) -> None:
        encoding = getattr(self.file, "encoding", None) or "utf-8"
        line = line_of(row).encode(encoding, "replace").decode(encoding)  # Not every file has the marks.
        print(line, file=self.file, flush=True)

    def close(self) -> None:
        """Nothing is left open."""


def line_of(row: Row) -> str:
    """A row as text."""
    at = row.began if row.ended is None else row.ended
    took = "" if row.ended is None else f"  {row.ended - row.began:.2f}s"
    note = f"  {row.note}" if row.note else ""
    return f"{at:8.2f}s  {'  ' * row.depth}{MARKS[row.status]} {row.name}{took}{note}"


class Table:
    """A table that is redrawn in place; needs rich."""

    def __init__(self, file: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self.live = Live(
            console=Console(file=file), auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self.live.start()

    def changed(self, row: Row, rows: list[Row]) -> None:
        from rich.text import Text

        text = "\n".join(map(line_of, rows))
        self.live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)

    def close(self) -> None:
        """Leaves the last state on the screen."""
        self.live.stop()


def view_for(file: TextIO) -> View:
    """The best view that a file can take."""
    if not file.isatty():
        return Lines(file)
    try:
        return Table(file)
    except ImportError:
        return Lines(file)


class TimelineTransformer(StreamTransformer):
    """Shows the run's tasks in the terminal while others read its projections.

    Give it as `transformers=[TimelineTransformer]`, or, with another file than standard error,
    `transformers=[lambda scope: TimelineTransformer(scope, file=f)]`.
    """

    methods: ClassVar[tuple[str, ...] | None] = ("tasks",)
    required_stream_modes: ClassVar[tuple[str, ...]] = ("tasks", "recorded")

    def __init__(
        self, scope: Scope = (), *, file: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(scope)
        self.rows = Rows(clock)
        self._file = file
        self._view: View | None = None
        self._inner = False

    def init(self) -> dict[str, Any]:
        return {}

    def process(self, event: ProtocolEvent) -> bool:
        row = None if self._inner else self.rows.take(event)
        if row is not None:
            self.view.changed(row, self.rows.rows)
        return True

    def note(self, mode: str, ns: Scope, data: Any) -> None:
        if mode == "recorded" and not self._inner:
            self.rows.recorded(data)

    def on_register(self, router: Any) -> None:
        self._inner = not router.numbered  # The root's timeline has the graphs inside already.

    @property
    def view(self) -> View:
        """What shows the rows; opened with the first one."""
        if self._view is None:
            self._view = view_for(self._file or sys.stderr)
        return self._view

    def finalize(self) -> None:
        # A call that asked a question has no end of its own; its caller tells that it is paused.
        self._close("paused" if any(row.status == "paused" for row in self.rows.rows) else "stopped")

    def fail(self, err: BaseException) -> None:
        self._close("stopped")

    def _close(self, status: Status) -> None:
        for row in self.rows.finish(status):
            self.view.changed(row, self.rows.rows)
        if self._view is not None:
            self._view.close()


def show_progress(
    workflow: Any, input: Any, config: Any = None, *, file: TextIO | None = None, **options: Any
) -> Any:
    """Runs a workflow and shows its tasks in the terminal as they start and end.

    Args:
        workflow: An entrypoint or a compiled graph.
        input, config, options: As for `stream_events`.
        file: Where to show them; standard error if not given.

    Returns:
        The run, at its end: `.output`, `.interrupts`.

    Raises:
        Exception: What ended the run.
    """
    given = options.pop("transformers", ())
    timeline = [lambda scope: TimelineTransformer(scope, file=file)]
    run = workflow.stream_events(input, config, version="v3", transformers=[*given, *timeline], **options)
    _ = run.output
    return run
