"""A process made to be killed: runs workflow after workflow on a SQLite file.

Usage: worker.py FILE KIND LAST. Goes on where the log says that the last process ended, up to
thread LAST. The log is written outside of what perdure stores: `run` by a task when it starts,
`finished` by its caller once it has the result and goes on, `accepted` by a body that runs.
"""

import asyncio
import os
import sys
from typing import TypedDict

from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import EmptyInputError
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph

path, kind, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
log_file = os.open(path + ".log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def log(*words):
    os.write(log_file, (" ".join(map(str, words)) + "\n").encode())


class State(TypedDict, total=False):
    thread: int
    n: int


def functions(saver):
    """One after the other, side by side, nested, and a graph called as a function."""

    @task
    def step(thread, i):
        log("run", thread, i)
        return i

    @task
    def pair(thread, i):
        log("run", thread, i)
        total = 0
        for part in (i + 1, i + 2):
            total += step(thread, part).result()
            log("finished", thread, part)
        return total

    inner = counting(None, 100)

    @entrypoint(checkpointer=saver)
    def workflow(thread):
        log("accepted", thread)
        total = 0
        for i in range(3):
            total += step(thread, i).result()
            log("finished", thread, i)
        futures = {i: step(thread, i) for i in (10, 11, 12)}
        for i, future in futures.items():
            total += future.result()
            log("finished", thread, i)
        total += pair(thread, 20).result()
        log("finished", thread, 20)
        total += inner.invoke({"thread": thread, "n": 100})["n"]
        log("finished", thread, 102)
        return total

    return workflow, lambda given, config: workflow.invoke(given, config), lambda thread: thread


def coroutines(saver):
    """Pipelines side by side, on an event loop."""

    @task
    async def step(thread, i):
        log("run", thread, i)
        await asyncio.sleep(0)
        return i

    async def pipeline(thread, start):
        total = 0
        for i in range(start, start + 3):
            total += await step(thread, i)
            log("finished", thread, i)
        return total

    @entrypoint(checkpointer=saver)
    async def workflow(thread):
        log("accepted", thread)
        first = await pipeline(thread, 0)
        return first + sum(await asyncio.gather(*(pipeline(thread, i) for i in (10, 20, 30))))

    def run(given, config):
        return asyncio.run(workflow.ainvoke(given, config))

    return workflow, run, lambda thread: thread


def counting(saver, start):
    """A graph that counts to `start` + 3; a node that runs tells that the one before finished."""

    @task
    def work(thread, i):
        log("run", thread, i)
        return i

    def count(state):
        thread, n = state["thread"], state["n"]
        if n == start:
            log("accepted", thread)
        else:
            log("finished", thread, n - 1)
        log("run", thread, n)
        work(thread, f"work-{n}").result()
        log("finished", thread, f"work-{n}")
        return {"n": n + 1}

    builder = StateGraph(State)
    builder.add_node("count", count)
    builder.add_edge(START, "count")
    builder.add_conditional_edges(
        "count", lambda s: "count" if s["n"] < start + 3 else "__end__", ["count", "__end__"]
    )
    return builder.compile(checkpointer=saver)


def graphs(saver):
    """Nodes in a row, two side by side, and a graph as a node."""

    def note(name, *before):
        def node(state):
            for other in before:
                log("finished", state["thread"], other)
            log("run", state["thread"], name)
            return {}

        return node

    builder = StateGraph(State)
    builder.add_node("first", lambda s: log("accepted", s["thread"]) or note("first")(s))
    builder.add_node("left", note("left", "first"))
    builder.add_node("right", note("right"))
    builder.add_node("inner", counting(None, 0))
    builder.add_node("end", note("end", "left", "right", 2))
    builder.add_edge(START, "first")
    builder.add_edge("first", "left")
    builder.add_edge("first", "right")
    builder.add_edge(["left", "right"], "inner")
    builder.add_edge("inner", "end")
    graph = builder.compile(checkpointer=saver)

    def run(given, config):
        return graph.invoke(given, config)["n"]

    return graph, run, lambda thread: {"thread": thread, "n": 0}


def go_on(thread, run, given, accepted):
    """Resumes the thread if it was ever started, else starts it."""
    config = {"configurable": {"thread_id": str(thread)}}
    try:
        result = run(None, config)
        log("resumed", thread)
    except EmptyInputError:
        if accepted:
            log("lost", thread)
            raise
        result = run(given, config)
    log("done", thread, result)


with open(path + ".log") as lines:
    seen = [line.split() for line in lines]
done = {int(words[1]) for words in seen if words[0] == "done"}
accepted = {int(words[1]) for words in seen if words[0] == "accepted"}

with SqliteSaver.from_conn_string(path) as saver:
    kinds = {"functions": functions, "coroutines": coroutines, "graphs": graphs}
    workflow, run, make_input = kinds[kind](saver)
    print("ready", flush=True)
    for thread in range(last + 1):
        if thread not in done:
            go_on(thread, run, make_input(thread), thread in accepted)
