"""Programs as users write them. They are never run: type checkers have to agree with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, assert_type

from typing_extensions import TypedDict

from perdure import (
    END,
    START,
    Command,
    MessagesState,
    RetryPolicy,
    Runtime,
    Send,
    StateGraph,
    add_messages,
    entrypoint,
    interrupt,
    task,
)
from perdure.checkpoint.memory import InMemorySaver
from perdure.func import TaskFunction
from perdure.graph.compiled import CompiledStateGraph


class State(TypedDict):
    topic: str
    messages: Annotated[list[Any], add_messages]


@dataclass
class Settings:
    language: str


@dataclass
class Review:
    approved: bool


@task
def write(topic: str, words: int = 100) -> str:
    return f"{words} words on {topic}"


@task(name="fetch", retry_policy=RetryPolicy(max_attempts=3))
async def fetch(page: int) -> list[str]:
    return [str(page)]


@entrypoint(checkpointer=InMemorySaver())
def workflow(topic: str, *, previous: str | None = None) -> entrypoint.final[str, str]:
    text: str = write(topic, words=50).result()
    review = interrupt({"text": text}, response_schema=Review)
    assert_type(review, Review)
    return entrypoint.final(value=text, save=previous or text)


def plan(state: State, runtime: Runtime[Settings]) -> dict[str, str]:
    return {"topic": f"{state['topic']} in {runtime.context.language}"}


def choose(state: State) -> Command[Any]:
    return Command(update={"topic": "x"}, goto=[Send("plan", state), END])


graph = StateGraph(State, context_schema=Settings)
graph.add_node("plan", plan).add_node(choose).add_edge(START, "plan").add_edge("plan", "choose")
compiled = graph.compile(checkpointer=InMemorySaver())

named: TaskFunction[..., str] = write
assert_type(compiled, CompiledStateGraph[State, Settings, State, State])

chat = StateGraph(MessagesState)
chat.add_node("answer", lambda state: {"messages": state["messages"][-1:]})

snapshot = compiled.get_state({"configurable": {"thread_id": "a"}})
assert_type(snapshot.next, tuple[str, ...])
