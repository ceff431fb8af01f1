"""JSON schemas of what a graph takes and gives."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
from pydantic import BaseModel

from perdure.constants import START
from perdure.graph.state import StateGraph
from perdure.managed import RemainingSteps

TEXT = {"type": "string"}


class State(TypedDict):
    words: NotRequired[Annotated[list[str], operator.add]]
    mood: str
    left: RemainingSteps


class Model(BaseModel):
    mood: str


@dataclass
class Point:
    mood: str
    words: list[str] = field(default_factory=list)
    count: Annotated[int, operator.add] = 3


def schema_of(schema: Any, which: Any = "input", **more: Any) -> Any:
    graph: StateGraph[Any] = StateGraph(schema, **more).add_node("x", lambda state: None).add_edge(START, "x")
    return getattr(graph.compile(), f"get_{which}_jsonschema")()


@pytest.mark.parametrize("which", ["input", "output"])
def test_a_typeddict_is_described_by_its_keys(which: str) -> None:
    """Under its own name, without managed values."""
    assert schema_of(State, which) == {
        "title": "State",
        "type": "object",
        "properties": {
            "words": {"title": "Words", "type": "array", "items": TEXT},
            "mood": {"title": "Mood", **TEXT},
        },
        "required": ["mood"],
    }


def test_a_model_describes_itself() -> None:
    """A pydantic model's own schema is given."""
    assert schema_of(Model) == Model.model_json_schema()


def test_a_dataclass_is_described_from_its_fields() -> None:
    """Under the graph's name, with the defaults of the class."""
    assert schema_of(Point, "output") == {
        "title": "LangGraphOutput",
        "type": "object",
        "properties": {
            "mood": {"title": "Mood", **TEXT},
            "words": {"title": "Words", "type": "array", "items": TEXT, "default": []},
            "count": {"title": "Count", "type": "integer", "default": 3},
        },
        "required": ["mood"],
    }


@pytest.mark.parametrize("schema", [list[str], Annotated[list[str], operator.add]])
def test_one_value_is_described_by_its_type(schema: Any) -> None:
    """Under the graph's name."""
    assert schema_of(schema) == {"title": "LangGraphInput", "type": "array", "items": TEXT}


def test_input_and_output_may_differ() -> None:
    """Each has the schema that was given for it."""
    more = {"input_schema": Model, "output_schema": int}
    assert schema_of(Point, "input", **more) == Model.model_json_schema()
    assert schema_of(Point, "output", **more) == {"title": "LangGraphOutput", "type": "integer"}


def test_the_context_is_described_when_there_is_one() -> None:
    """None without a context schema."""
    assert schema_of(State, "context") is None
    assert schema_of(State, "context", context_schema=Point)["title"] == "Point"


def test_a_compiled_graph_tells_its_schemas() -> None:
    """Each has the title of its class; a graph without a declared context has none."""

    class Asked(TypedDict):
        question: str

    class Told(TypedDict):
        answer: int

    class Context(TypedDict):
        user: str

    def build(context: Any) -> Any:
        builder = StateGraph(Told, context_schema=context, input_schema=Asked, output_schema=Told)
        builder.add_node("n", lambda state: {"answer": 1})
        builder.add_edge(START, "n")
        return builder.compile()

    graph = build(Context)
    shown = graph.get_input_jsonschema(), graph.get_output_jsonschema(), graph.get_context_jsonschema()
    assert [(schema["title"], list(schema["properties"])) for schema in shown] == [
        ("Asked", ["question"]),
        ("Told", ["answer"]),
        ("Context", ["user"]),
    ]
    assert build(None).get_context_jsonschema() is None
