"""SIGTERM on a real process: the documented hook ends the run at a boundary."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import perdure

ENV = {**os.environ, "PYTHONPATH": str(Path(perdure.__file__).parents[1])}

PROGRAM = """
import json, os, signal, sys
from typing import TypedDict

from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import GraphDrained
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.runtime import RunControl

path, kind, given = sys.argv[1:]
T = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    n: int


def work(n):
    with open(path + ".log", "a") as log:
        log.write(f"{n}\\n")
    if n == 2 and given != "null":
        print("at two", flush=True)
        sys.stdin.readline()  # the parent sends SIGTERM, then a line
    return n + 1


def functions(saver):
    step = task(work)

    @entrypoint(checkpointer=saver)
    def workflow(x):
        n = 0
        while n < 5:
            n = step(n).result()
        return {"n": n}

    return workflow, RunControl(between="tasks")


def graph(saver):
    builder = StateGraph(State)
    builder.add_node("count", lambda state: {"n": work(state["n"])})
    builder.add_edge(START, "count")
    builder.add_conditional_edges(
        "count", lambda state: "count" if state["n"] < 5 else "__end__", ["count", "__end__"]
    )
    return builder.compile(checkpointer=saver), RunControl()


with SqliteSaver.from_conn_string(path) as saver:
    workflow, control = {"functions": functions, "graph": graph}[kind](saver)
    signal.signal(signal.SIGTERM, lambda *_: control.request_drain("sigterm"))
    try:
        print(json.dumps(workflow.invoke(json.loads(given), T, control=control)))
    except GraphDrained as drained:
        print(f"drained: {drained.reason}")
"""


@pytest.mark.parametrize("kind", ["functions", "graph"])
def test_sigterm_drains_and_the_next_process_goes_on(tmp_path: Path, kind):
    """The signalled process stops between two steps; another one does the rest, once."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path = tmp_path / "threads.db"

    def command(given):
        return [sys.executable, str(program), str(path), kind, json.dumps(given)]

    with subprocess.Popen(
        command({"n": 0}), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENV
    ) as process:
        assert process.stdout.readline() == "at two\n"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate("go\n", timeout=60)
    assert out == "drained: sigterm\n"
    second = subprocess.run(command(None), capture_output=True, text=True, timeout=60, check=True, env=ENV)
    assert json.loads(second.stdout) == {"n": 5}
    assert Path(f"{path}.log").read_text().split() == ["0", "1", "2", "3", "4"]
