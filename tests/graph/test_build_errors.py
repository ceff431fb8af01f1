"""Mistakes in building a graph are told at once, by what is wrong."""

from __future__ import annotations

import logging
import operator
from typing import Annotated, Any, Literal

import pytest
from typing_extensions import TypedDict

from perdure.constants import END, START
from perdure.graph.state import StateGraph
from perdure.managed import RemainingSteps
from perdure.types import Command, RetryPolicy
from perdure.warnings import PerdureDeprecatedSinceV05, PerdureDeprecatedSinceV10


def bad(left: list[str]) -> list[str]:
    return left


class Bad(TypedDict):
    a: Annotated[list[str], bad]


class State(TypedDict):
    words: Annotated[list[str], operator.add]
    mood: str


def idle(state: Any) -> None:
    return None


def graph(*names: str) -> StateGraph[Any]:
    made: StateGraph[Any] = StateGraph(State)
    for name in names:
        made.add_node(name, idle)
    return made


# -- nodes


def test_a_node_is_added_once() -> None:
    """The second node of a name is refused."""
    with pytest.raises(ValueError, match=r"Node `x` already present\."):
        graph("x").add_node("x", idle)


@pytest.mark.parametrize("name", [START, END])
def test_start_and_end_are_no_names_for_nodes(name: str) -> None:
    """START and END are taken."""
    with pytest.raises(ValueError, match=r"is reserved\."):
        graph(name)


@pytest.mark.parametrize("name", ["a|b", "a:b"])
def test_names_have_no_namespace_separators(name: str) -> None:
    """The characters that separate namespaces are refused."""
    with pytest.raises(ValueError, match="is a reserved character"):
        graph(name)


@pytest.mark.parametrize("name", ["__interrupt__", "__error__", "__pregel_tasks", "__input__"])
def test_names_of_the_record_are_no_nodes(name: str) -> None:
    """A node cannot be named like what a run records; compile says so."""
    with pytest.raises(ValueError, match=f"Node name '{name}' is reserved"):
        graph(name).add_edge(START, name).compile()


@pytest.mark.parametrize("key", ["__interrupt__", "__start__", "__pregel_tasks", "branch:to:x", "join:a:b"])
def test_names_of_the_record_are_no_state_keys(key: str) -> None:
    """A state key cannot be named like a channel of the run; compile says so."""
    schema = TypedDict("schema", {key: str})  # type: ignore[misc]
    made: StateGraph[Any] = StateGraph(schema).add_node("x", idle).add_edge(START, "x")
    with pytest.raises(ValueError, match=f"Channel name '{key}' is reserved"):
        made.compile()


def test_a_name_needs_an_action() -> None:
    """A name alone is no node."""
    with pytest.raises(RuntimeError):
        graph().add_node("x")


def test_a_node_must_be_callable() -> None:
    """What cannot be called is refused when the graph is compiled."""
    with pytest.raises(TypeError, match="cannot be called"):
        graph().add_node("x", 3).add_edge(START, "x").compile()  # type: ignore[arg-type]


def test_a_sync_node_has_no_time_limit() -> None:
    """A time limit on a sync node is refused by compile."""
    made = graph().add_node("x", idle, timeout=1).add_edge(START, "x")
    with pytest.raises(ValueError, match="only supported for async nodes"):
        made.compile()


def test_a_default_time_limit_is_checked_too() -> None:
    """A default time limit on a sync node is refused by compile."""
    made = graph("x").add_edge(START, "x").set_node_defaults(timeout=1)
    with pytest.raises(ValueError, match="only supported for async nodes"):
        made.compile()


def test_a_time_limit_is_positive() -> None:
    """A limit of zero is refused at once."""
    with pytest.raises(ValueError, match="greater than 0"):
        graph().add_node("x", idle, timeout=0)


def test_no_user_node_is_called_like_the_default_handler() -> None:
    """With a default error handler its node's name is taken."""
    name = "__default_error_handler__"
    made = graph(name).add_edge(START, name).set_node_defaults(error_handler=idle)
    with pytest.raises(ValueError, match=name):
        made.compile()


def test_a_graph_with_a_default_handler_compiles_twice() -> None:
    """compile adds nothing to the graph."""
    made = graph("x").add_edge(START, "x").set_node_defaults(error_handler=idle)
    assert list(made.compile().builder.nodes) == list(made.compile().builder.nodes) == ["x"]


# -- edges


def test_end_starts_nothing() -> None:
    """No edge leaves END."""
    with pytest.raises(ValueError, match="END cannot be a start node"):
        graph("x").add_edge(END, "x")


def test_a_join_does_not_start_at_end() -> None:
    """END is no start of a join either."""
    with pytest.raises(ValueError, match="END cannot be a start node"):
        graph("x").add_edge([END], "x")


def test_start_ends_nothing() -> None:
    """No edge leads to START."""
    with pytest.raises(ValueError, match="START cannot be an end node"):
        graph("x").add_edge("x", START)


@pytest.mark.parametrize(("starts", "end", "missing"), [(["x", "y"], "x", "y"), (["x"], "y", "y")])
def test_a_join_wants_its_nodes_first(starts: list[str], end: str, missing: str) -> None:
    """A list of starts is checked when it is given."""
    with pytest.raises(ValueError, match=f"Need to add_node `{missing}` first"):
        graph("x").add_edge(starts, end)


def test_a_join_needs_starts() -> None:
    """A join of nothing is refused."""
    with pytest.raises(ValueError, match="at least one start"):
        graph("x").add_edge([], "x")


def test_a_graph_needs_an_entry() -> None:
    """Without an edge from START there is nothing to run."""
    with pytest.raises(ValueError, match="Graph must have an entrypoint"):
        graph("x").compile()


def test_an_edge_from_nowhere_is_found() -> None:
    """compile names an unknown start."""
    made = graph("x").add_edge(START, "x").add_edge("q", "x")
    with pytest.raises(ValueError, match="Found edge starting at unknown node 'q'"):
        made.compile()


def test_a_branch_from_nowhere_is_found() -> None:
    """compile names an unknown source of a conditional edge."""
    made = graph("x").add_edge(START, "x").add_conditional_edges("q", idle)
    with pytest.raises(ValueError, match="Found edge starting at unknown node 'q'"):
        made.compile()


def test_an_edge_to_nowhere_is_found() -> None:
    """compile names an unknown end."""
    made = graph("x").add_edge(START, "x").add_edge("x", "q")
    with pytest.raises(ValueError, match="Found edge ending at unknown node `q`"):
        made.compile()


def test_declared_destinations_are_checked() -> None:
    """Where a node's Commands may go has to be there."""
    made = graph().add_node("x", idle, destinations=("q",)).add_edge(START, "x")
    with pytest.raises(ValueError, match="unknown node `q`"):
        made.compile()


def test_annotated_destinations_are_checked() -> None:
    """So is what the return annotation says of Commands, inside a union too."""

    def go(state: Any) -> Command[Literal["q"]] | None:
        return None

    with pytest.raises(ValueError, match="unknown node `q`"):
        graph().add_node("go", go).add_edge(START, "go").compile()


# -- branches


def test_a_path_map_leads_to_nodes() -> None:
    """A target of a map that is no node is named with its branch."""

    def cond(state: Any) -> str:
        return "a"

    made = graph("n").add_edge(START, "n").add_conditional_edges("n", cond, {"a": "x"})
    with pytest.raises(ValueError, match="At 'n' node, 'cond' branch found unknown target 'x'"):
        made.compile()


def test_a_literal_hint_is_a_path_map() -> None:
    """A Literal in the return annotation is checked like a map."""

    def cond(state: Any) -> Literal["x"]:
        return "x"

    made = graph("n").add_edge(START, "n").add_conditional_edges("n", cond)
    with pytest.raises(ValueError, match="unknown target 'x'"):
        made.compile()


def test_branches_of_a_node_have_names_of_their_own() -> None:
    """Two branches of one name on one node are refused."""
    made = graph("n").add_conditional_edges("n", idle)
    with pytest.raises(ValueError, match="Branch with name `idle` already exists for node `n`"):
        made.add_conditional_edges("n", idle)


def test_lambdas_share_a_name() -> None:
    """A lambda's branch is called `condition`."""
    made = graph("n").add_conditional_edges("n", lambda state: END)
    assert list(made.branches["n"]) == ["condition"]


# -- breakpoints, sequences, savers


@pytest.mark.parametrize("stops", [{"interrupt_before": ["q"]}, {"interrupt_after": ["q"]}])
def test_breakpoints_are_at_nodes(stops: dict[str, Any]) -> None:
    """A static breakpoint at an unknown node is refused."""
    with pytest.raises(ValueError, match="Interrupt node `q` not found"):
        graph("x").add_edge(START, "x").compile(**stops)


def test_breakpoints_are_checked_beside_a_star() -> None:
    """A star on one side does not hide an unknown node on the other."""
    with pytest.raises(ValueError, match="Node q not in nodes"):
        graph("x").add_edge(START, "x").compile(interrupt_before=["q"], interrupt_after="*")


def test_a_sequence_has_nodes() -> None:
    """An empty sequence is refused."""
    with pytest.raises(ValueError, match=r"Sequence requires at least one node\."):
        graph().add_sequence([])


def test_a_sequence_has_names_of_its_own() -> None:
    """Two nodes of one name in a sequence are refused."""
    with pytest.raises(ValueError, match="Node names must be unique"):
        graph().add_sequence([idle, idle])


def test_a_saver_has_to_save() -> None:
    """What is no saver is refused."""
    with pytest.raises(TypeError, match="Invalid checkpointer provided"):
        graph("x").add_edge(START, "x").compile(checkpointer="memory")  # type: ignore[arg-type]


# -- schemas


def test_a_reducer_takes_two() -> None:
    """A reducer of one argument is refused, with its signature."""

    with pytest.raises(ValueError, match=r"Invalid reducer signature.*Got \(left\)"):
        StateGraph(Bad)


def test_schemas_agree_on_a_reducer() -> None:
    """A key with a reducer in one schema only, declared after a plain one, is refused."""

    class Other(TypedDict):
        mood: Annotated[str, operator.add]

    with pytest.raises(ValueError, match="Channel 'mood' already exists with a different type"):
        StateGraph(State, input_schema=Other)


@pytest.mark.parametrize("place", ["input_schema", "output_schema"])
def test_managed_values_are_not_given_or_returned(place: str) -> None:
    """A managed value in an input or output schema is refused by name."""

    class Other(TypedDict):
        left: RemainingSteps

    with pytest.raises(ValueError, match=r"Other: left.*not permitted"):
        StateGraph(State, **{place: Other})


def test_a_schema_is_a_type() -> None:
    """What says nothing of a type is warned about."""
    with pytest.warns(UserWarning, match="Invalid state_schema"):
        StateGraph("State")  # type: ignore[arg-type]


# -- old spellings


@pytest.mark.parametrize(
    ("old", "new", "category"),
    [
        ("config_schema", "context_schema", PerdureDeprecatedSinceV10),
        ("input", "input_schema", PerdureDeprecatedSinceV05),
        ("output", "output_schema", PerdureDeprecatedSinceV05),
    ],
)
def test_old_spellings_of_the_graph(old: str, new: str, category: type[Warning]) -> None:
    """Old keywords work, and say what they are called now."""
    with pytest.warns(category, match=f"`{old}` is deprecated.*`{new}`"):
        made: StateGraph[Any] = StateGraph(State, **{old: State})
    assert getattr(made, new) is State


@pytest.mark.parametrize(
    ("old", "new", "value", "kept"),
    [("retry", "retry_policy", RetryPolicy(), (RetryPolicy(),)), ("input", "input_schema", State, State)],
)
def test_old_spellings_of_a_node(old: str, new: str, value: Any, kept: Any) -> None:
    """Old keywords of add_node work, and say what they are called now."""
    made = graph()
    with pytest.warns(PerdureDeprecatedSinceV05, match=f"`{old}` is deprecated.*`{new}`"):
        made.add_node("x", idle, **{old: value})
    assert getattr(made.nodes["x"], new) == kept


def test_a_new_spelling_wins() -> None:
    """Where both are given the new one counts."""
    with pytest.warns(PerdureDeprecatedSinceV05):
        made: StateGraph[Any] = StateGraph(State, input_schema=State, input=int)
    assert made.input_schema is State


def test_unknown_keywords_are_refused() -> None:
    """A keyword that never was one is named."""
    with pytest.raises(TypeError, match="'colour'"):
        graph().add_node("x", idle, colour="red")


def test_late_changes_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A node added after compile is not part of what was compiled, and the log says so."""
    made = graph("x").add_edge(START, "x")
    compiled = made.compile()
    with caplog.at_level(logging.WARNING):
        made.add_node("y", idle)
    assert "already been compiled" in caplog.text
    assert "y" not in compiled.program.nodes


@pytest.mark.parametrize("setting", ["on_busy", "on_divergence"])
def test_a_setting_of_compile_that_it_cannot_have_is_refused(setting: str) -> None:
    """The error names the values that it can have."""
    builder = graph("a").add_edge(START, "a")
    with pytest.raises(ValueError, match=f"{setting} must be one of .*, not 'perhaps'"):
        builder.compile(**{setting: "perhaps"})
