"""The programs that read a run while it goes on; registered beside those of `programs.py`."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from programs import CONFIG, MICRO, ROOT, Count, graph, program

STEPS, CHUNKS = 500, 1000
INPUT = {"n": 0}
PROJECTIONS = (
    "values", "messages", "lifecycle", "subgraphs", "updates", "custom", "tasks", "checkpoints", "debug",
)  # fmt: skip


END = graph.END


def step(state: Count) -> Count:
    return {"n": state["n"] + 1}


async def astep(state: Count) -> Count:
    return {"n": state["n"] + 1}


def more(state: Count) -> str:
    return "step" if state["n"] < STEPS else END


def counting(node: Any) -> Any:
    """A graph of 500 supersteps, each with one node and one conditional edge."""
    builder = graph.StateGraph(Count)
    builder.add_node("step", node)
    builder.add_edge(graph.START, "step")
    builder.add_conditional_edges("step", more)
    return builder.compile()


# --- modes


def modes(mode: str) -> float:
    workflow = counting(step)
    began = perf_counter()
    seen = sum(1 for _ in workflow.stream(INPUT, CONFIG, stream_mode=mode))
    took = perf_counter() - began
    assert seen >= STEPS
    return took / STEPS * MICRO


async def modes_async(mode: str) -> float:
    workflow, seen = counting(astep), 0
    began = perf_counter()
    async for _ in workflow.astream(INPUT, CONFIG, stream_mode=mode):
        seen += 1
    took = perf_counter() - began
    assert seen >= STEPS
    return took / STEPS * MICRO


for _mode in ("values", "updates"):

    @program(f"stream-{_mode}")
    def _(folder: Path, mode: str = _mode) -> float:
        return modes(mode)

    @program(f"stream-{_mode}-async")
    def _(folder: Path, mode: str = _mode) -> float:
        return asyncio.run(modes_async(mode))


# --- v3, every projection open


def transformers() -> list[Any]:
    stream = importlib.import_module(f"{ROOT}.stream")
    names = ("Updates", "Custom", "Tasks", "Checkpoints", "Debug")
    return [getattr(stream, f"{name}Transformer") for name in names]


@program("v3")
def _(folder: Path) -> float:
    workflow, made = counting(step), transformers()
    began = perf_counter()
    run = workflow.stream_events(INPUT, CONFIG, version="v3", transformers=made)
    seen = sum(1 for _ in run.interleave(*PROJECTIONS))
    took = perf_counter() - began
    assert seen >= 4 * STEPS
    assert run.output == {"n": STEPS}
    return took / STEPS * MICRO


@program("v3-async")
def _(folder: Path) -> float:
    async def read(channel: Any) -> int:
        seen = 0
        async for _ in channel:
            seen += 1
        return seen

    async def main() -> float:
        workflow, made = counting(astep), transformers()
        began = perf_counter()
        run = await workflow.astream_events(INPUT, CONFIG, version="v3", transformers=made)
        seen = await asyncio.gather(*(read(run.extensions[name]) for name in PROJECTIONS))
        took = perf_counter() - began
        assert sum(seen) >= 4 * STEPS
        assert await run.output() == {"n": STEPS}
        return took / STEPS * MICRO

    return asyncio.run(main())


# --- tokens of a LangChain model


def talking() -> tuple[Any, Any]:
    """A LangChain chat model that streams 1,000 chunks, and a graph whose node asks it."""
    models = importlib.import_module("langchain_core.language_models.chat_models")
    messages = importlib.import_module("langchain_core.messages")
    outputs = importlib.import_module("langchain_core.outputs")

    class Chatter(models.BaseChatModel):  # type: ignore[misc, name-defined]
        @property
        def _llm_type(self) -> str:
            return "chatter"

        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError("the tokens are not streamed")

        def _stream(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
            for _ in range(CHUNKS):
                yield outputs.ChatGenerationChunk(message=messages.AIMessageChunk(content="word "))

        async def _astream(self, *args: Any, **kwargs: Any) -> Any:
            for chunk in self._stream():
                yield chunk

    model = Chatter()
    builder = graph.StateGraph(graph.MessagesState)
    builder.add_node("ask", lambda state: {"messages": [model.invoke(state["messages"])]})
    builder.add_edge(graph.START, "ask")
    builder.add_edge("ask", graph.END)
    return model, builder.compile()


QUESTION = {"messages": [{"role": "user", "content": "?"}]}


def answering_async() -> Any:
    """The graph of `talking`, its node async."""
    model, _ = talking()

    async def ask(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = graph.StateGraph(graph.MessagesState)
    builder.add_node("ask", ask)
    builder.add_edge(graph.START, "ask")
    builder.add_edge("ask", graph.END)
    return builder.compile()


def warm(read: Callable[[], float]) -> float:
    """The second of two readings: what a first run loads is not a token's cost."""
    read()
    return read()


@program("tokens")
def _(folder: Path) -> float:
    _, workflow = talking()

    def read() -> float:
        began = perf_counter()
        run = workflow.stream_events(QUESTION, version="v3")
        seen = sum(1 for message in run.messages for _ in message.text)
        took = perf_counter() - began
        assert seen == CHUNKS
        return took / CHUNKS * MICRO

    return warm(read)


@program("tokens-async")
def _(folder: Path) -> float:
    async def main() -> float:
        workflow, seen = answering_async(), 0
        began = perf_counter()
        run = await workflow.astream_events(QUESTION, version="v3")
        async for message in run.messages:
            async for _ in message.text:
                seen += 1
        took = perf_counter() - began
        assert seen == CHUNKS
        return took / CHUNKS * MICRO

    return warm(lambda: asyncio.run(main()))


@program("tokens-mode")
def _(folder: Path) -> float:
    _, workflow = talking()

    def read() -> float:
        began = perf_counter()
        seen = sum(1 for chunk, _ in workflow.stream(QUESTION, stream_mode="messages") if chunk.content)
        took = perf_counter() - began
        assert seen == CHUNKS
        return took / CHUNKS * MICRO

    return warm(read)


@program("tokens-alone")
def _(folder: Path) -> float:
    """The model read without any workflow: what LangChain's own streaming costs a chunk."""
    model, _ = talking()

    def read() -> float:
        began = perf_counter()
        seen = sum(1 for chunk in model.stream("?") if chunk.content)
        took = perf_counter() - began
        assert seen == CHUNKS
        return took / CHUNKS * MICRO

    return warm(read)
