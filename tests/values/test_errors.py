"""Errors say fact, value and next move; signals pass by `except Exception`."""

from __future__ import annotations

import copy
import pickle

import pytest

from perdure import errors
from perdure.interrupts import Interrupt
from perdure.types import Command
from perdure.warnings import PerdureDeprecatedSinceV10

SIGNALS = [
    errors.GraphInterrupt((Interrupt("ok?"),)),
    errors.ParentCommand(Command(update={"a": 1})),
    errors.DrainSignal("sigterm"),
    errors.CancelSignal(),
    errors.LeaseLostSignal(),
]
ERRORS = [
    errors.ContextError("called outside"),
    errors.EmptyChannelError(),
    errors.EmptyInputError("no input"),
    errors.GraphDrained("sigterm"),
    errors.GraphRecursionError("too many steps"),
    errors.InvalidUpdateError("two values"),
    errors.LeaseLostError("t"),
    errors.MissingThreadIdError(),
    errors.NewerFormatError("format 9"),
    errors.NodeCancelledError("n"),
    errors.NodeTimeoutError("n", 2.5, kind="idle", idle_timeout=2),
    errors.NonDeterminismError("other call"),
    errors.NotADatabaseError("no database"),
    errors.DatabaseLockedError("locked"),
    errors.ReadOnlyDatabaseError("read only"),
    errors.RecordedError("app.Oops", ("a", 1)),
    errors.SaverClosedError(),
    errors.StoreFormatError("bad"),
    errors.TaskNotFound("t"),
    errors.ThreadBusyError("t", "pid 7"),
    errors.UnknownInterruptError("no such id", interrupt_ids=["a"], pending_ids=["b"]),
    errors.UnknownTypeError("app.Thing"),
    errors.UnstorableError("cannot", path=("rows", 3), type_name="Thing"),
]


def name(error: BaseException) -> str:
    return type(error).__name__


@pytest.mark.parametrize("signal", SIGNALS, ids=name)
def test_signals_are_not_exceptions(signal: BaseException) -> None:
    """`except Exception` in user code cannot swallow a signal."""
    assert isinstance(signal, errors.GraphBubbleUp)
    assert not isinstance(signal, Exception)


@pytest.mark.parametrize("error", ERRORS, ids=name)
def test_errors_have_one_root(error: BaseException) -> None:
    """`except PerdureError` catches whatever the library raises on its own account."""
    assert isinstance(error, errors.PerdureError)
    assert isinstance(error, Exception)


def test_no_error_is_forgotten() -> None:
    """Every error class of the module is among those that the tests here look at."""
    tested = {type(error) for error in (*ERRORS, *SIGNALS)}
    named = {getattr(errors, name) for name in errors.__all__}
    classes = {item for item in named if isinstance(item, type) and issubclass(item, BaseException)}
    assert classes - tested == {errors.PerdureError, errors.GraphBubbleUp, errors.NodeInterrupt}


@pytest.mark.parametrize("error", [*ERRORS, *SIGNALS], ids=name)
@pytest.mark.parametrize(
    "copied", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))], ids=["copy", "pickle"]
)
def test_errors_can_be_copied(error: BaseException, copied) -> None:
    """A copy has the same text, arguments and attributes, whatever the constructor asks for."""
    twin = copied(error)
    assert type(twin) is type(error)
    assert (str(twin), twin.args, vars(twin)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.GraphRecursionError, RecursionError),
        (errors.ContextError, RuntimeError),
        (errors.MissingThreadIdError, ValueError),
        (errors.UnstorableError, TypeError),
        (errors.NewerFormatError, errors.StoreFormatError),
        (errors.NotADatabaseError, errors.StoreFormatError),
        (errors.ReadOnlyDatabaseError, errors.StoreFormatError),
        (errors.NodeInterrupt, errors.GraphInterrupt),
    ],
)
def test_kinship(error: type[BaseException], builtin: type[BaseException]) -> None:
    """Errors are kinds of the builtin ones that programs already catch."""
    assert issubclass(error, builtin)


def test_a_time_out_is_no_TimeoutError() -> None:
    """A node's time limit is told apart from time-outs of the user's own code."""
    assert not issubclass(errors.NodeTimeoutError, TimeoutError)


@pytest.mark.parametrize("code", list(errors.ErrorCode))
def test_the_code_is_the_last_part_of_the_page(code: errors.ErrorCode) -> None:
    """A coded message ends in the code."""
    text = errors.create_error_message(message="what happened", error_code=code)
    assert text.startswith("what happened\n")
    assert text.endswith("/" + code.value)


def test_an_interrupt_carries_its_questions() -> None:
    """The questions are the first argument and the `interrupts` of the signal."""
    question = Interrupt("ok?")
    signal = errors.GraphInterrupt([question])
    assert signal.args[0] == signal.interrupts == [question]
    assert errors.GraphInterrupt().interrupts == ()


def test_node_interrupt_is_deprecated() -> None:
    """The old way to pause warns, and asks its one question."""
    with pytest.warns(PerdureDeprecatedSinceV10, match="`NodeInterrupt` is deprecated"):
        signal = errors.NodeInterrupt("why")
    assert signal.interrupts == [Interrupt("why")]


def test_drained_names_its_reason() -> None:
    """The reason of a drain is an attribute and part of the text."""
    error = errors.GraphDrained("sigterm")
    assert error.reason == "sigterm"
    assert str(error) == "Graph drained: sigterm"
    assert errors.GraphDrained().reason == "shutdown"


def test_a_busy_thread_says_what_to_do() -> None:
    """The text names the thread, the holder and the way to wait."""
    text = str(errors.ThreadBusyError("t", "pid 7 on host a"))
    assert text == (
        "thread 't' is held by pid 7 on host a; "
        'run again when it has ended, or wait for it with on_busy="wait"'
    )


def test_a_missing_thread_id_names_the_keys() -> None:
    """The text names all three keys that address a checkpoint."""
    text = str(errors.MissingThreadIdError())
    assert all(key in text for key in ("thread_id", "checkpoint_ns", "checkpoint_id", "configurable"))


def test_run_time_out() -> None:
    """The text of a run time-out gives limit and duration."""
    error = errors.NodeTimeoutError("n", 0.1, kind="run", run_timeout=0.05, idle_timeout=3)
    assert str(error) == "Node 'n' exceeded its run timeout of 0.050s (elapsed: 0.100s)."
    assert error.timeout == 0.05


def test_idle_time_out() -> None:
    """The text of an idle time-out says that there was no progress."""
    error = errors.NodeTimeoutError("n", 0.1, kind="idle", idle_timeout=0.05)
    assert "idle timeout of 0.050s without making progress" in str(error)
    assert error.timeout == 0.05


def test_a_time_out_has_the_limit_of_its_kind() -> None:
    """A time-out without its own limit cannot be made."""
    with pytest.raises(ValueError, match="run_timeout"):
        errors.NodeTimeoutError("n", 1, kind="run", idle_timeout=2)


def test_recorded_error_shows_the_class_it_stands_for() -> None:
    """The text has the name of the class and what it was raised with."""
    assert str(errors.RecordedError("app.Oops", ("a", 1))) == "app.Oops: a, 1"


def test_an_answer_that_does_not_fit_is_known() -> None:
    """Only errors that were marked as such count as invalid answers."""
    error = ValueError("not a number")
    assert not errors.is_invalid_resume(error)
    errors.mark_invalid_resume(error)
    errors.mark_invalid_resume(error)
    assert errors.is_invalid_resume(error)
    assert len(error.__notes__) == 1


def test_pydantic_errors_can_be_marked() -> None:
    """Pydantic's validation error takes the mark, too."""
    from pydantic import TypeAdapter, ValidationError

    with pytest.raises(ValidationError) as raised:
        TypeAdapter(int).validate_python("x")
    errors.mark_invalid_resume(raised.value)
    assert errors.is_invalid_resume(raised.value)


def test_node_error_is_a_value() -> None:
    """What handlers are given is compared by its fields and cannot be changed."""
    error = ValueError()
    assert errors.NodeError("n", error) == errors.NodeError("n", error)
    with pytest.raises(AttributeError):
        errors.NodeError("n", error).node = "m"  # type: ignore[misc]
