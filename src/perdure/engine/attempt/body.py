"""One attempt at a task: the user's function, then what it returned as writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perdure.engine.action import Action, is_runnable
from perdure.engine.attempt.visited import visited
from perdure.engine.effects import Invoke, Steps
from perdure.engine.frame import Frame, settle_attempt
from perdure.engine.program import Node, Write
from perdure.engine.tasks import Task
from perdure.errors import ParentCommand
from perdure.types import Command


def attempt(frame: Frame) -> Steps[Any]:
    """Runs the frame's code once, under the eyes of a guest where there is one."""
    guest = frame.run.guest
    if guest is None:
        return body(frame)
    shown = (lambda: frame.output) if frame.task is not None else None
    return visited(guest.visit(frame), body(frame), shown)


def body(frame: Frame) -> Steps[Any]:
    """Runs the frame's code once. A call gives its value, a node its writes."""
    return _call(frame) if frame.task is None else _node(frame, frame.task)


def _call(frame: Frame) -> Steps[Any]:
    value = yield _invoke(frame, frame.action, frame.args, frame.kwargs)
    settle_attempt(frame)
    return value


def _invoke(frame: Frame, action: Action, args: tuple[Any, ...], given: dict[str, Any]) -> Invoke:
    return Invoke(action, args, action.arguments(frame, given, len(args)) if action.inject else given)


def _node(frame: Frame, task: Task) -> Steps[list[Write]]:
    node, run = task.node, frame.run
    try:
        output = yield _invoke(frame, node.action, frame.args, {})
        if type(output) is not dict and not run.program.entrypoint and is_runnable(output):
            output = yield _invoke(frame, Action.of(output), frame.args, {})
    except ParentCommand as signal:
        output = _own(signal, frame)
    settle_attempt(frame)
    frame.output = output
    if not node.branches:
        return [*node.write(output), *frame.writes]
    writes = yield from node_writes(frame, node, output)
    settle_attempt(frame)
    return writes


def node_writes(frame: Frame, node: Node, output: Any) -> Steps[list[Write]]:
    """What a node's output becomes: its writes, and where its conditional edges lead."""
    run = frame.run
    writes = [*node.write(output), *frame.writes]
    for branch in node.branches:
        view = run.view(writes)
        argument = branch.read(view, run, output)
        choose = _invoke(frame, branch.path, (argument,), {})
        if run.guest is None:
            chosen = yield choose
        else:
            chosen = yield from visited(run.guest.visit_branch(frame, branch, argument), iter(choose))
        writes.extend(branch.route(chosen))
    return writes


def _own(signal: ParentCommand, frame: Frame) -> Command[Any]:
    """A command from a graph below, as if the node that contains it had returned it.

    One that names a graph further up goes on upwards.
    """
    command = signal.command
    target = command.graph
    here = (frame.run.recast_ns, frame.run.graph_names)
    if target == Command.PARENT or target == here[0] or target in here[1]:
        return replace(command, graph=None)
    raise signal
