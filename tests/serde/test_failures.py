"""Errors that are stored and come back."""

from __future__ import annotations

import threading
from typing import Any

import ormsgpack
import pytest

from perdure.errors import GraphInterrupt, NodeTimeoutError, RecordedError
from perdure.interrupts import Interrupt
from perdure.serde import Codec, Registry
from serde import samples
from serde.samples import same

codec = Codec()


def back(error: BaseException) -> Any:
    return codec.decode(codec.encode(error))


def decoding_error() -> UnicodeDecodeError:
    return UnicodeDecodeError("utf-8", b"abc", 1, 2, "why")


ERRORS: list[BaseException] = [
    ValueError(),
    ValueError("a", (1, {2})),
    KeyError("k"),
    KeyboardInterrupt("stop"),
    FileNotFoundError(2, "no such file", "a/b"),
    samples.DiskError(5, "broken", "x", None, "y"),
    decoding_error(),
    StopIteration(5),
    SystemExit(3),
    ImportError("no", name="n", path="p"),
    SyntaxError("bad", ("f.py", 1, 2, "x = ", 1, 5)),
    samples.Refused("no", code=7),
    NodeTimeoutError("n", 2.0, kind="run", run_timeout=1.0),
    GraphInterrupt((Interrupt("go?", "id"),)),
    ExceptionGroup("two", [ValueError(1), ExceptionGroup("deep", [samples.Refused("x", code=1)])]),
    BaseExceptionGroup("mixed", [KeyboardInterrupt(), ValueError(2)]),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_as_its_class(error: BaseException) -> None:
    """Class, arguments, text and attributes are those that it had."""
    read = back(error)
    assert same(read, error)
    assert (repr(read), str(read)) == (repr(error), str(error))


def test_what_built_in_errors_hold_comes_back() -> None:
    """Also what they keep outside of their arguments."""
    read = back(FileNotFoundError(2, "no such file", "a/b"))
    assert (read.errno, read.strerror, read.filename) == (2, "no such file", "a/b")
    assert back(decoding_error()).object == b"abc"
    assert back(StopIteration(5)).value == 5


def test_notes_are_kept() -> None:
    """What was added on the way is told again."""
    error = ValueError("a")
    error.add_note("in step 3")
    assert back(error).__notes__ == ["in step 3"]


def test_cause_and_traceback_are_not_kept() -> None:
    """A stored error is about what happened, not about the stack of another process."""
    try:
        raise ValueError("a") from KeyError("b")
    except ValueError as error:
        read = back(error)
    assert (read.__cause__, read.__context__, read.__traceback__) == (None, None, None)


def test_what_cannot_be_stored_in_an_error_is_text() -> None:
    """An error is recorded even when it holds what caused it."""
    lock = threading.Lock()
    error = ValueError("a", lock, (1,))
    error.lock = lock  # type: ignore[attr-defined]
    read = back(error)
    assert read.args == ("a", repr(lock), (1,))
    assert read.lock == repr(lock)


def test_an_error_in_an_error_is_kept() -> None:
    """One that refers to another keeps it; references in a circle end in text."""
    outer, inner = ValueError("outer"), KeyError("inner")
    outer.inner, inner.outer = inner, outer  # type: ignore[attr-defined]
    read = back(outer)
    assert (type(read.inner), type(read.inner.outer)) == (KeyError, ValueError)
    assert "inner" in str(read.inner.outer.inner)


def test_errors_that_all_know_each_other_are_stored_quickly() -> None:
    """A web of references does not multiply without end."""
    errors = [ValueError(number) for number in range(10)]
    for error in errors:
        error.others = errors  # type: ignore[attr-defined]
    assert len(codec.encode(ExceptionGroup("web", errors))) < 5_000_000


def test_an_error_without_a_text_is_stored() -> None:
    """Also when an argument's repr raises."""

    class Mute:
        def __repr__(self) -> str:
            raise RuntimeError

    assert back(ValueError(Mute())).args == ("<test_an_error_without_a_text_is_stored.<locals>.Mute>",)


def recorded(name: str, **attributes: Any) -> bytes:
    from perdure.serde import codes

    held = {key: ormsgpack.packb(value) for key, value in attributes.items()}
    return ormsgpack.packb(ormsgpack.Ext(codes.ERROR, ormsgpack.packb([name, [b"\xa3oh!"], held, []])))


def test_an_error_of_an_unknown_class_comes_back_as_recorded() -> None:
    """It says which class it was, and keeps arguments, attributes and notes."""
    read = codec.decode(recorded("gone.module:LostError", code=3, __notes__=["n"]))
    assert (type(read), read.type_name, read.args) == (RecordedError, "gone.module.LostError", ("oh!",))
    assert (read.code, read.__notes__, str(read)) == (3, ["n"], "gone.module.LostError: oh!")


def test_a_recorded_error_can_be_recorded_again() -> None:
    """A second round changes nothing."""
    read = codec.decode(recorded("gone.module:LostError"))
    assert (str(back(read)), back(read).type_name) == (str(read), read.type_name)


def test_what_is_no_error_is_not_built_as_one() -> None:
    """Bytes that name another class give a RecordedError."""
    assert type(codec.decode(recorded("subprocess:Popen"))) is RecordedError


def test_a_strict_registry_builds_no_unregistered_error() -> None:
    """Recording never fails; building is for registered classes and built-in ones."""
    strict = Codec(Registry(strict=True))
    assert type(strict.decode(strict.encode(ValueError(1)))) is ValueError
    assert type(strict.decode(strict.encode(samples.Refused("x", code=1)))) is RecordedError
