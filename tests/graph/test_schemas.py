"""Which channels the classes of users become, and how nodes read them."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, Literal, NotRequired, Required, TypeVar

import pytest
from pydantic import BaseModel, ValidationError
from typing_extensions import ReadOnly, TypeAliasType, TypedDict

from perdure.channels import (
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    Topic,
    UntrackedValue,
)
from perdure.constants import START
from perdure.engine.program import Node, Standing
from perdure.errors import EmptyChannelError
from perdure.graph.hints import command_targets, literal_targets
from perdure.graph.schema import read_schema
from perdure.graph.state import StateGraph
from perdure.managed import IsLastStep, RemainingSteps
from perdure.types import Command

Item = TypeVar("Item")
STEPS = Standing(step=2, stop=5)


class Base(TypedDict):
    words: Annotated[list[str], operator.add]
    mood: NotRequired[str]


class Derived(Base, total=False):
    count: Required[Annotated[int, operator.add]]
    fixed: ReadOnly[Required[str]]


@dataclass
class Point:
    kind: ClassVar[str] = "point"
    x: int
    trail: Annotated[list[int], operator.add] = field(default_factory=list)
    length: int = field(init=False, default=0)


class Model(BaseModel):
    name: str
    tags: Annotated[list[str], operator.add] = []


class Part(TypedDict):
    mood: str


class Private(TypedDict):
    draft: Annotated[str, UntrackedValue]


class Seen(TypedDict):
    verdict: str


class Box(TypedDict, Generic[Item]):
    content: Item
    all: Annotated[list[Item], operator.add]


def of(**hints: Any) -> Any:
    """A TypedDict with these keys."""
    return TypedDict("schema", hints)  # type: ignore[operator]


def kinds(schema: Any) -> dict[str, tuple[type, Any]]:
    return {key: (type(channel), channel.typ) for key, channel in read_schema(schema).channels.items()}


def test_a_typeddict_gives_inherited_keys_too() -> None:
    """Every annotation counts; Required, NotRequired and ReadOnly say nothing of the type."""
    assert kinds(Derived) == {
        "words": (BinaryOperatorAggregate, list[str]),
        "mood": (LastValue, str),
        "count": (BinaryOperatorAggregate, int),
        "fixed": (LastValue, str),
    }


def test_a_dataclass_gives_its_constructor_fields() -> None:
    """Class variables and fields that the constructor does not take are no state."""
    assert kinds(Point) == {"x": (LastValue, int), "trail": (BinaryOperatorAggregate, list[int])}


def test_a_model_gives_its_fields() -> None:
    """Pydantic's own class variables are no state."""
    assert kinds(Model) == {"name": (LastValue, str), "tags": (BinaryOperatorAggregate, list[str])}


def test_a_plain_annotated_class_gives_its_annotations() -> None:
    """Any class with annotations is a schema."""

    class Plain:
        x: int
        kind: ClassVar[str]

    assert kinds(Plain) == {"x": (LastValue, int)}


def test_a_generic_class_knows_its_arguments() -> None:
    """The types of a parameterised TypedDict are filled in."""
    assert kinds(Box[int]) == {
        "content": (LastValue, int),
        "all": (BinaryOperatorAggregate, list[int]),
    }


@pytest.mark.parametrize("schema", [str, list[int], dict, int | None])
def test_a_bare_type_is_one_value(schema: Any) -> None:
    """A type without fields makes a state of one value."""
    assert kinds(schema) == {"__root__": (LastValue, schema)}


def test_a_bare_type_may_have_a_reducer() -> None:
    """Annotated at the top gives the one value its reducer."""
    assert kinds(Annotated[list[int], operator.add]) == {"__root__": (BinaryOperatorAggregate, list[int])}


def test_a_channel_class_in_the_metadata_wins() -> None:
    """Wherever it stands in the metadata."""
    schema = of(a=Annotated[int, EphemeralValue, operator.add])
    assert kinds(schema) == {"a": (EphemeralValue, int)}


def test_a_channel_in_the_metadata_is_copied() -> None:
    """One channel object may stand in several schemas."""
    topic: Topic[str] = Topic(str, accumulate=True)
    schema = of(a=Annotated[list[str], topic], b=Annotated[list[str], topic])
    channels = read_schema(schema).channels
    assert (channels["a"].key, channels["b"].key) == ("a", "b")
    assert channels["a"] == topic


def test_a_delta_channel_takes_the_annotated_type() -> None:
    """Made without a type, it takes the one it annotates."""
    schema = of(a=Annotated[dict[str, int], DeltaChannel(lambda s, w: s)])
    assert kinds(schema) == {"a": (DeltaChannel, dict[str, int])}


def test_an_alias_stands_for_its_type() -> None:
    """A named alias of an annotated type works as the type."""
    words = TypeAliasType("words", Annotated[list[str], operator.add])
    schema = of(a=words)
    assert kinds(schema) == {"a": (BinaryOperatorAggregate, list[str])}


def test_only_the_last_metadata_is_a_reducer() -> None:
    """A callable before something else is no reducer."""
    schema = of(a=Annotated[int, operator.add, "sum"])
    assert kinds(schema) == {"a": (LastValue, int)}


@pytest.mark.parametrize("reducer", [max, lambda *both: both[0], lambda left, right: left])
def test_reducers_of_two_are_taken(reducer: Any) -> None:
    """So are functions of any number of arguments, and builtins that do not tell."""
    schema = of(a=Annotated[int, reducer])
    assert kinds(schema) == {"a": (BinaryOperatorAggregate, int)}


@pytest.mark.parametrize("reducer", [lambda left: left, lambda left, right, more=1: left, len])
def test_other_reducers_are_refused(reducer: Any) -> None:
    """Positional parameters are counted, those with a default too."""
    with pytest.raises(ValueError, match="Invalid reducer signature"):
        read_schema(of(a=Annotated[int, reducer]))


def test_schemas_are_united() -> None:
    """Keys of input, output, node and branch schemas all belong to the state."""

    def think(state: Private) -> None:
        return None

    def judge(state: Seen) -> str:
        return "think"

    graph: StateGraph[Any] = StateGraph(Base, input_schema=of(question=str), output_schema=of(answer=str))
    graph.add_node("think", think).add_edge(START, "think").add_conditional_edges("think", judge)
    program = graph.compile().program
    assert program.stream == ("words", "mood", "question", "answer", "draft", "verdict")
    assert program.output == ("answer",)
    assert isinstance(program.channels["draft"], UntrackedValue)


def test_a_plain_key_does_not_change_a_reducer() -> None:
    """Declared again without its reducer, a key keeps it."""

    graph: StateGraph[Any] = StateGraph(Base, input_schema=of(words=list[str]))
    assert isinstance(graph.channels["words"], BinaryOperatorAggregate)


# -- reading


def node(schema: Any, action: Any = lambda state: None, **more: Any) -> tuple[Node, dict[str, Any]]:
    graph: StateGraph[Any] = StateGraph(schema).add_node("n", action, **more).add_edge(START, "n")
    program = graph.compile().program
    return program.nodes["n"], {key: channel.copy() for key, channel in program.channels.items()}


def test_a_node_reads_the_keys_that_are_there() -> None:
    """Keys without a value are absent; reducers start with the empty value."""
    n, channels = node(Derived)
    assert n.read(channels, STEPS) == {"words": [], "count": 0}
    channels["mood"].update(["fine"])
    assert n.read(channels, STEPS) == {"words": [], "count": 0, "mood": "fine"}
    assert n.coerce is None


def test_a_node_reads_what_its_annotation_names() -> None:
    """The annotation of the first parameter is the input schema."""

    def look(state: Part) -> None:
        return None

    n, channels = node(Base, look)
    channels["mood"].update(["fine"])
    assert n.read(channels, STEPS) == {"mood": "fine"}


def test_a_given_input_schema_wins() -> None:
    """`input_schema` comes before the annotation."""

    def look(state: Base) -> None:
        return None

    n, channels = node(Base, look, input_schema=of(extra=int))
    assert n.read(channels, STEPS) == {}


@pytest.mark.parametrize("annotation", [dict, "Unknown", dict[str, Any], Any])
def test_annotations_without_fields_mean_the_state(annotation: Any) -> None:
    """What is no schema class, or cannot be resolved, says nothing."""

    def look(state: Any) -> None:
        return None

    look.__annotations__["state"] = annotation
    n, channels = node(Base, look)
    assert n.read(channels, STEPS) == {"words": []}


def test_a_dataclass_is_made_of_what_was_read() -> None:
    """The node gets an instance of the class."""
    n, channels = node(Point)
    channels["x"].update([1])
    assert n.coerce is not None
    assert n.coerce(n.read(channels, STEPS)) == Point(1, [])


def test_a_model_validates_what_was_read() -> None:
    """Pydantic converts, or raises its own error."""
    n, channels = node(Model)
    assert n.coerce is not None
    with pytest.raises(ValidationError):
        n.coerce(n.read(channels, STEPS))
    channels["name"].update(["n"])
    assert n.coerce(n.read(channels, STEPS)) == Model(name="n", tags=[])


def test_a_root_state_is_read_bare() -> None:
    """A state of one value is handed over as it is, and there is no input without one."""
    n, channels = node(str)
    with pytest.raises(EmptyChannelError):
        n.read(channels, STEPS)
    channels["__root__"].update(["a"])
    assert n.read(channels, STEPS) == "a"


def test_managed_values_are_computed_on_reading() -> None:
    """They are read like keys, and have no channel."""

    n, channels = node(of(left=RemainingSteps, last=IsLastStep))
    assert n.read(channels, Standing(step=4, stop=5)) == {"left": 0, "last": True}
    assert n.read(channels, Standing(step=2, stop=5)) == {"left": 2, "last": False}
    assert not {"left", "last"} & channels.keys()


# -- functions


class Judge:
    def __call__(self, state: Any) -> Literal["a", "b"]:
        return "a"


def test_literal_targets_are_read_from_the_return_annotation() -> None:
    """Of functions and of callable objects."""
    assert literal_targets(Judge()) == ("a", "b")
    assert literal_targets(Judge().__call__) == ("a", "b")
    assert literal_targets(lambda state: "a") == ()


@pytest.mark.parametrize(
    "hint",
    [
        Command[Literal["a", "b"]],
        Command[Literal["a", "b"]] | None,
        dict[str, Any] | Command[Literal["a"]] | Command[Literal["b"]],
        Annotated[Command[Literal["a", "b"]], "where to"],
    ],
)
def test_command_targets_are_read_from_unions_too(hint: Any) -> None:
    """`Command[Literal[...]] | None` says where the node may go."""

    def go(state: Any) -> None:
        return None

    go.__annotations__["return"] = hint
    assert command_targets(go) == ("a", "b")
