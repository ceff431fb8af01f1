"""A long async run keeps nothing of the supersteps behind it."""

import asyncio
import gc
import operator
import weakref
from typing import Annotated, TypedDict

from perdure.graph import END, START, StateGraph

STEPS = 50


class State(TypedDict):
    n: Annotated[int, operator.add]


def test_finished_tasks_of_a_run_are_let_go():
    """While the last node runs, the asyncio tasks of the nodes before it are gone."""
    seen = []
    alive = []

    async def node(state):
        seen.append(weakref.ref(asyncio.current_task()))
        if state["n"] == STEPS - 1:
            await asyncio.sleep(0)
            gc.collect()
            alive.append(sum(1 for ref in seen if ref() is not None))
        return {"n": 1}

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", lambda state: "node" if state["n"] < STEPS else END)
    asyncio.run(builder.compile().ainvoke({"n": 0}))
    assert alive[0] <= 2
