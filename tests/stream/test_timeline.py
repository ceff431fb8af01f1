"""A run's tasks in the terminal."""

from __future__ import annotations

import io
import sys

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.stream import TimelineTransformer, show_progress
from perdure.stream.router import EventRouter
from perdure.stream.timeline import Lines, Table, view_for
from perdure.types import Command, interrupt
from stream.events import result, start

T = {"configurable": {"thread_id": "t"}}


@task
def double(x):
    return 2 * x


@entrypoint(checkpointer=InMemorySaver())
def flow(x):
    return double(x).result() + interrupt("more?")


def lines(file):
    """Mark and name of each line."""
    return [line.partition("s  ")[2].split()[:2] for line in file.getvalue().splitlines()]


def test_progress_of_a_run_and_of_its_resumption():
    """Each task has a line when it starts and when it ends; a recorded one says so."""
    thread = {"configurable": {"thread_id": "progress"}}
    file = io.StringIO()
    run = show_progress(flow, 2, thread, file=file)
    assert [question.value for question in run.interrupts] == ["more?"]
    assert lines(file) == [["▶", "flow"], ["▶", "double"], ["✔", "double"], ["⏸", "flow"]]
    file = io.StringIO()
    assert show_progress(flow, Command(resume=1), thread, file=file).output == 5
    assert lines(file) == [["▶", "flow"], ["↺", "double"], ["✔", "flow"]]


def test_progress_of_a_graph_that_goes_on():
    """A node whose result is on record says so as well."""
    broken = [True]

    def second(state):
        if broken.pop():
            raise ValueError("down")
        broken.append(False)

    builder = StateGraph(dict).add_node("first", lambda state: None).add_node("second", second)
    graph = builder.add_edge(START, "first").add_edge(START, "second").compile(InMemorySaver())
    with pytest.raises(ValueError, match="down"):
        show_progress(graph, {}, T, file=io.StringIO())
    broken.append(False)
    file = io.StringIO()
    show_progress(graph, None, T, file=file)
    assert lines(file) == [["↺", "first"], ["▶", "second"], ["✔", "second"]]


def test_progress_of_a_question_in_a_task():
    """The task that asked is paused, as is its caller."""

    @task
    def ask():
        return interrupt("sure? " * 99)

    @entrypoint(checkpointer=InMemorySaver())
    def asking(x):
        return ask().result()

    file = io.StringIO()
    show_progress(asking, 1, T, file=file)
    assert lines(file) == [["▶", "asking"], ["▶", "ask"], ["⏸", "asking"], ["⏸", "ask"]]
    assert max(map(len, file.getvalue().splitlines())) < 110


def test_progress_of_a_run_that_fails():
    """The error is on its task's line, and raised."""

    @task
    def bad():
        raise ValueError("boom")

    @entrypoint()
    def failing(x):
        bad().result()

    file = io.StringIO()
    with pytest.raises(ValueError, match="boom"):
        show_progress(failing, 1, file=file)
    assert "✘ bad" in file.getvalue()
    assert "ValueError('boom')" in file.getvalue()


def timeline(file, *events, end=None, seconds=()):
    """The text of a timeline of some events, with a clock that says `seconds`."""
    ticks = iter(seconds)
    router = EventRouter([TimelineTransformer(file=file, clock=lambda: next(ticks))])
    for item in events:
        router.push(item)
    router.close() if end is None else router.fail(end)
    return file.getvalue()


def test_a_line_shows_when_and_how_long():
    """Time since the start, and the time that a task took."""
    events = start((), "a", "1"), result((), "a", "1")
    text = timeline(io.StringIO(), *events, seconds=[10.0, 10.5, 12.0])
    assert text == "    0.50s  ▶ a\n    2.00s  ✔ a  1.50s\n"


def test_graphs_and_calls_are_indented():
    """What runs inside stands to the right."""
    call = start((), "c", "3", triggers=("__pregel_push",))
    events = [start((), "n", "1"), start(("n:1",), "i", "2"), call]
    text = timeline(io.StringIO(), *events, seconds=range(9), end=ValueError())
    assert [line.index(line.strip().split()[-1]) for line in text.splitlines()[:3]] == [13, 15, 15]


def test_what_a_failed_run_left_is_stopped():
    """A task without an end was not served from the record when the run failed."""
    text = timeline(io.StringIO(), start((), "a", "1"), seconds=[0, 0], end=ValueError())
    assert text.splitlines()[-1].strip() == "0.00s  ■ a"


def test_a_file_that_cannot_hold_the_marks_gets_the_rest():
    """A run does not fail for the letters of its timeline."""
    file = io.TextIOWrapper(io.BytesIO(), "latin-1")
    TimelineTransformer(file=file, clock=lambda: 0.0).process(start((), "käse", "1"))
    file.seek(0)
    assert file.read() == "    0.00s  ? käse\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_table_that_is_redrawn():
    """With rich installed, lines are drawn over."""
    terminal = Terminal()
    assert isinstance(view_for(terminal), Table)
    text = timeline(terminal, start((), "a", "1"), result((), "a", "1"), seconds=[0, 0, 1])
    assert "\x1b[" in text
    assert "✔ a" in text


def test_a_terminal_without_rich_gets_lines(monkeypatch):
    """So do files."""
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert isinstance(view_for(Terminal()), Lines)
    assert isinstance(view_for(io.StringIO()), Lines)
