"""The values that programs hold behave as documented."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
from typing_extensions import TypedDict

from perdure import types
from perdure.errors import ContextError
from perdure.types import (
    Command,
    GraphOutput,
    Interrupt,
    Overwrite,
    PregelTask,
    Send,
    TimeoutPolicy,
    interrupt,
)
from perdure.warnings import PerdureDeprecatedSinceV10, PerdureDeprecatedSinceV11
from values.scope import NotedScope, inside


def test_every_name_is_there() -> None:
    """What the module promises can be imported."""
    assert all(hasattr(types, name) for name in types.__all__)


# -- Send


def test_sends_are_equal_by_content() -> None:
    """Node, argument and limit make a Send."""
    assert Send("n", [1]) == Send("n", [1])
    assert Send("n", 1) != Send("n", 1, timeout=2)
    assert Send("n", 1) != ("n", 1)
    assert len({Send("n", 1), Send("n", 1), Send("m", 1)}) == 2


def test_send_shows_a_limit_only_if_it_has_one() -> None:
    """The text of a plain Send names node and argument."""
    assert repr(Send("n", 1)) == "Send(node='n', arg=1)"
    assert "timeout=TimeoutPolicy(run_timeout=2.0" in repr(Send("n", 1, timeout=2))


def test_send_takes_no_other_attributes() -> None:
    """A misspelt attribute is an error."""
    with pytest.raises(AttributeError):
        Send("n", 1).nodes = "m"  # type: ignore[attr-defined]


def test_send_refuses_a_limit_of_nothing() -> None:
    """The limit of a Send is checked when it is made."""
    with pytest.raises(ValueError, match="greater than 0"):
        Send("n", 1, timeout=0)


def test_send_survives_pickling() -> None:
    """A pickled Send is the same Send."""
    send = Send("n", {"a": 1}, timeout=2)
    assert pickle.loads(pickle.dumps(send)) == send


# -- Command


def test_command_shows_what_was_given() -> None:
    """Fields that are empty are left out of the text."""
    assert repr(Command(update={"a": 1}, goto="n")) == "Command(update={'a': 1}, goto='n')"
    assert repr(Command()) == "Command()"


def test_command_is_keyword_only_and_frozen() -> None:
    """A Command cannot be built by position or changed."""
    with pytest.raises(TypeError):
        Command({"a": 1})  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Command().update = 1  # type: ignore[misc]


def test_parent_is_a_name() -> None:
    """The parent graph is addressed by a reserved name."""
    assert Command.PARENT == "__parent__"
    assert Command[str] is not None


# -- Interrupt


def test_the_id_of_the_first_question_is_the_hash_of_its_namespace() -> None:
    """Ids are the same in every process."""
    assert Interrupt.from_ns(1, "a:b").id == "4b83cb671c7db94535a5819dd7f7c459"


def test_old_records_name_the_namespace() -> None:
    """A question recorded with `ns` gets the id that it has today."""
    assert Interrupt(1, ns=["a", "b:c"]) == Interrupt.from_ns(1, "a|b:c")


def test_interrupt_id_is_deprecated() -> None:
    """The old name of the id warns."""
    with pytest.warns(PerdureDeprecatedSinceV10, match="`interrupt_id` is deprecated. Use `id`"):
        assert Interrupt(1, "x").interrupt_id == "x"


def test_interrupt_as_dict() -> None:
    """The fields of a question are those that streams show."""
    assert dataclasses.asdict(Interrupt(1)) == {"value": 1, "id": "placeholder-id", "response_schema": None}


# -- interrupt()


def test_interrupt_asks_the_scope() -> None:
    """The question and the schema of its answer go to what is running here."""
    with inside(NotedScope()) as scope:
        assert interrupt("ok?", response_schema={"type": "string"}) == "answer"
        assert interrupt("sure?") == "answer"
    assert scope.asked == [("ok?", {"type": "string"}), ("sure?", None)]


def test_interrupt_outside_of_a_run() -> None:
    """There is nobody to ask outside of a run."""
    with pytest.raises(ContextError, match="outside of a runnable context"):
        interrupt("ok?")


# -- GraphOutput


class _Schema:
    def __init__(self) -> None:
        self.a = 1


@pytest.mark.parametrize("value", [{"a": 1}, _Schema()], ids=["dict", "object"])
def test_keys_of_an_output_are_deprecated(value: object) -> None:
    """Version 1's way to the values still works, and warns."""
    output = GraphOutput(value, (Interrupt(1),))
    with pytest.warns(PerdureDeprecatedSinceV11, match=r"Use `result\.value`"):
        assert output["a"] == 1
    with pytest.warns(PerdureDeprecatedSinceV11):
        assert "a" in output
    with pytest.warns(PerdureDeprecatedSinceV11):
        assert "b" not in output
    with pytest.warns(PerdureDeprecatedSinceV11):
        assert output["__interrupt__"] == (Interrupt(1),)


def test_an_output_without_questions_has_no_interrupt_key() -> None:
    """As in version 1, the key is there only when the run is paused."""
    with pytest.warns(PerdureDeprecatedSinceV11):
        assert "__interrupt__" not in GraphOutput({"a": 1})


def test_a_bare_value_has_no_keys() -> None:
    """An output that is no mapping raises KeyError."""
    with pytest.warns(PerdureDeprecatedSinceV11), pytest.raises(KeyError):
        GraphOutput(5)["a"]


# -- the rest


def test_overwrite_is_compared_by_value() -> None:
    """Two replacements with the same value are equal."""
    assert Overwrite([1]) == Overwrite([1])


def test_a_task_keeps_the_documented_fields_first() -> None:
    """Code that unpacks tasks by position keeps working; calls come last."""
    assert PregelTask._fields == ("id", "name", "path", "error", "interrupts", "state", "result", "calls")
    assert PregelTask("i", "n", ()).calls == ()


class _Saver:
    def get_tuple(self) -> None: ...
    def put(self) -> None: ...
    def put_writes(self) -> None: ...


@pytest.mark.parametrize("checkpointer", [None, True, False, _Saver()])
def test_valid_checkpointers(checkpointer: object) -> None:
    """Savers are known by their methods."""
    assert types.ensure_valid_checkpointer(checkpointer) is checkpointer


class _Opens:
    def __enter__(self) -> None: ...


@pytest.mark.parametrize(
    ("checkpointer", "hint"),
    [("db.sqlite", "Received str"), (_Saver, "not an instance"), (_Opens(), "enter it in a `with` block")],
)
def test_invalid_checkpointers(checkpointer: object, hint: str) -> None:
    """What cannot save is refused, with a hint at what went wrong."""
    with pytest.raises(TypeError, match=f"Invalid checkpointer provided.*{hint}"):
        types.ensure_valid_checkpointer(checkpointer)


def test_stream_part_types_take_parameters() -> None:
    """The union of parts is generic over state and output."""

    class State(TypedDict):
        a: int

    assert types.StreamPart[State, State] is not None
    assert types.DebugPayload[State] is not None


def test_timeout_policy_is_reexported() -> None:
    """Policies live in a room of their own and are found in `types`."""
    assert TimeoutPolicy.coerce(1) == types.TimeoutPolicy(run_timeout=1.0)
