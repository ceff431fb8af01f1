"""What cannot be stored is refused, and one is told where it lies."""

from __future__ import annotations

import sqlite3
import threading
from collections import ChainMap, defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from perdure.errors import UnstorableError
from perdure.serde import Codec, Registry
from serde import samples

codec = Codec()
LOCK = threading.Lock()


def refusal(value: Any) -> Any:
    with pytest.raises(UnstorableError) as caught:
        codec.encode(value)
    return caught.value


def test_the_path_and_the_type_are_named() -> None:
    """The message says where the value lies and what it is."""
    connection = sqlite3.connect(":memory:")
    error = refusal({"rows": [1, (2,), {3}, SimpleNamespace(conn=connection)]})
    connection.close()
    assert str(error) == "['rows'][3].conn, a sqlite3.Connection, cannot be stored"
    assert (error.path, error.type_name) == ("['rows'][3].conn", "sqlite3.Connection")


def test_the_value_itself_has_no_path() -> None:
    """A value that is refused as a whole is named by its type."""
    error = refusal(object())
    assert (str(error), error.path) == ("an object cannot be stored", "")


def test_a_refusal_is_a_type_error() -> None:
    """Who catches TypeError, as with the documented serializer, catches it."""
    assert isinstance(refusal(object()), TypeError)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": {LOCK}}, "['a'][*]"),
        ({(1, LOCK): 1}, ".keys()[0][1]"),
        ([samples.Point(1, LOCK)], "[0].y"),
        (samples.Frozen([LOCK]), ".name[0]"),
        (samples.Pair(1, (LOCK,)), ".right[0]"),
        (samples.Table(a=LOCK), "['a']"),
        (ChainMap({}, {"a": LOCK}), ".maps[1]['a']"),
        ({"d": defaultdict(lambda: 1)}, "['d'].default_factory"),
        ([bytearray(b"a"), "\ud800", LOCK], "[2]"),
        (slice(LOCK), ".stop"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_the_path_is_written_as_code(value: Any, path: str) -> None:
    """Keys, places and attributes read as one would write them."""
    assert refusal(value).path == path


@pytest.mark.parametrize("value", [lambda: 1, (n for n in ()), LOCK, samples.Plain(), samples, len, open])
def test_what_is_no_data_is_refused(value: Any) -> None:
    """Functions, generators, locks, modules and unknown classes are never stored."""
    assert refusal([value]).path == "[0]"


def test_a_list_that_contains_itself_is_refused() -> None:
    """A cycle is named, and nothing overflows."""
    value: list[Any] = []
    value.append(value)
    assert "contains itself" in str(refusal({"a": value}))


@pytest.mark.parametrize(
    "make",
    [
        lambda inner: [inner, inner],
        lambda inner: ([inner], [inner]),
        lambda inner: {"a": (inner,), "b": inner},
        lambda inner: samples.Point(inner, [inner]),
    ],
    ids=["list", "tuple", "dict", "class"],
)
def test_a_cycle_by_way_of_others_is_refused(make: Callable[[Any], Any]) -> None:
    """However a value comes to contain itself, it is refused in finite time."""
    inner: list[Any] = []
    inner.append(make(inner))
    assert "contains itself" in str(refusal(inner))


def test_a_great_shared_value_is_no_cycle() -> None:
    """The same object in two places is stored in both."""
    shared = ([1], {2})
    assert codec.decode(codec.encode([shared, shared])) == [shared, shared]


def test_an_error_of_a_registered_encoder_passes_unchanged() -> None:
    """Its type and text are the user's, the path is a note."""

    def encode(value: samples.Plain) -> Any:
        raise LookupError("no such thing")

    registry = Registry()
    registry.register(samples.Plain, encode, lambda stored: samples.Plain())
    with pytest.raises(LookupError) as caught:
        Codec(registry).encode({"a": [samples.Plain()]})
    assert (type(caught.value), str(caught.value)) == (LookupError, "no such thing")
    assert caught.value.__notes__ == ["while storing ['a'][0], a serde.samples.Plain"]


def test_what_a_registered_encoder_gives_must_be_storable() -> None:
    """The path leads to the value that was encoded."""
    registry = Registry()
    registry.register(samples.Plain, lambda value: {"lock": LOCK}, lambda stored: samples.Plain())
    with pytest.raises(UnstorableError, match=r"^\[0\]\['lock'\], a _thread\.lock, cannot be stored$"):
        Codec(registry).encode([samples.Plain()])


def test_an_interrupt_from_the_keyboard_is_not_swallowed() -> None:
    """What is no ordinary error leaves at once."""

    def encode(value: samples.Plain) -> Any:
        raise KeyboardInterrupt

    registry = Registry()
    registry.register(samples.Plain, encode, lambda stored: samples.Plain())
    with pytest.raises(KeyboardInterrupt):
        Codec(registry).encode([samples.Plain()])


def test_a_key_is_quoted_in_short() -> None:
    """A key of a thousand letters does not fill the message."""
    assert len(refusal({"k" * 1000: LOCK}).path) < 100
