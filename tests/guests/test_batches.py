"""Many inputs at once, and streams of a chain's step; without LangChain."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from typing_extensions import TypedDict

from perdure import START, StateGraph, entrypoint
from perdure.config import RunnableConfig


class State(TypedDict):
    n: int


@entrypoint()
def double(n: int) -> int:
    if n < 0:
        raise ValueError(f"no {n}")
    return n * 2


def graph() -> Any:
    builder = StateGraph(State).add_node("more", lambda state: {"n": state["n"] + 1})
    return builder.add_edge(START, "more").compile()


def batch(drive: Any, *args: Any, of: Any = double, **kw: Any) -> Any:
    if drive.is_async:
        return asyncio.run(of.abatch(*args, **kw))
    return of.batch(*args, **kw)


def test_results_come_in_the_order_of_the_inputs(drive: Any) -> None:
    """One for each."""
    assert batch(drive, [1, 2, 3]) == [2, 4, 6]


def test_no_input_no_result(drive: Any) -> None:
    """Nothing runs."""
    assert batch(drive, []) == []


def test_an_error_is_raised(drive: Any) -> None:
    """The first one in the order of the inputs."""
    with pytest.raises(ValueError, match="no -1"):
        batch(drive, [1, -1, -2])


def test_an_error_may_stand_for_its_result(drive: Any) -> None:
    """The others are there."""
    first, second, third = batch(drive, [1, -1, 3], return_exceptions=True)
    assert (first, third) == (2, 6)
    assert str(second) == "no -1"


def test_each_input_may_have_a_config(drive: Any) -> None:
    """As many as inputs; anything else is refused."""

    @entrypoint()
    def who(n: int, config: RunnableConfig) -> tuple[int, str]:
        return n, config["configurable"]["name"]

    configs = [{"configurable": {"name": name}} for name in "ab"]
    assert batch(drive, [1, 2], configs, of=who) == [(1, "a"), (2, "b")]
    with pytest.raises(ValueError, match="2 inputs need as many configs"):
        batch(drive, [1, 2], configs[:1])


def test_a_limit_holds_for_the_batch() -> None:
    """No more runs at once than `max_concurrency`."""
    lock, running, most = threading.Lock(), [0], [0]

    @entrypoint()
    def counted(n: int) -> int:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        with lock:
            running[0] -= 1
        return n

    assert counted.batch(list(range(8)), {"max_concurrency": 1}) == list(range(8))
    assert most == [1]


def test_a_step_takes_the_sum_of_its_input() -> None:
    """Chunks that add are added; of others the last one counts."""
    assert list(double.transform(iter([1, 2]))) == [6]
    assert list(graph().transform(iter([{"n": 1}, {"n": 5}])))[-1] == {"n": 6}
    assert list(double.transform(iter([]))) == []


def test_an_async_step_takes_the_sum_of_its_input() -> None:
    """As a sync one does."""

    async def chunks(*given: Any) -> Any:
        for chunk in given:
            yield chunk

    async def read(*given: Any) -> list[Any]:
        return [item async for item in double.atransform(chunks(*given))]

    assert asyncio.run(read(1, 2)) == [6]
    assert asyncio.run(read()) == []


def test_names_with_a_suffix() -> None:
    """Spelled as the name is."""
    assert graph().get_name("Input") == "LangGraphInput"
    assert graph().get_name("Input", name="mine") == "mine_input"
