"""What goes into bytes comes out as it was."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.serde import Codec
from serde import samples
from serde.samples import same

codec = Codec()


def back(value: Any) -> Any:
    return codec.decode(codec.encode(value))


@pytest.mark.parametrize("value", samples.VALUES, ids=samples.sample_id)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    """Value, type, order and sign are those that went in."""
    assert same(back(value), value)


@pytest.mark.parametrize("value", samples.VALUES, ids=samples.sample_id)
def test_a_value_inside_others_comes_back_as_it_was(value: Any) -> None:
    """It does not matter in what a value lies."""
    for whole in ([value], (value, value), {"a": [value]}, {1: value}, samples.Point(value, [value])):
        assert same(back(whole), whole)


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(samples.ANYTHING)
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    """Whatever is built of supported kinds round-trips, however it is nested."""
    assert same(back(value), value)


def test_sets_in_sets_are_compared_without_their_order() -> None:
    """Two equal sets may print differently, for instance after a round trip."""
    few, same_few = frozenset([8, 0]), frozenset([0, 8])
    assert repr(few) != repr(same_few)
    assert same({few, frozenset([1])}, {same_few, frozenset([1])})
    assert not same({few, frozenset([1])}, {same_few, frozenset([2])})


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(samples.KEYS, st.integers(), max_size=6))
def test_any_keys_keep_their_order(value: dict[Any, int]) -> None:
    """Keys of every kind come back, in the order in which they were put in."""
    assert same(list(back(value)), list(value))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: [inner],
        lambda inner: (inner,),
        lambda inner: {"a": inner},
        lambda inner: {1: inner},
        lambda inner: [({"a": inner},)],
        lambda inner: samples.Box(inner),
    ],
    ids=["list", "tuple", "dict", "keys", "mixed", "class"],
)
@pytest.mark.parametrize("leaf", ["x", "\ud800", (1,)], ids=["plain", "surrogate", "tuple"])
def test_deep_nesting_is_stored(wrap: Any, leaf: Any) -> None:
    """2,000 levels are no more of a problem than two."""
    value = leaf
    for _ in range(2000):
        value = wrap(value)
    data = codec.encode(value)
    assert codec.encode(codec.decode(data)) == data


def test_no_constructor_runs() -> None:
    """Classes are put together without `__init__`, `__post_init__` or overridden methods."""
    values = [samples.Point(1), samples.Table({1: 2}), samples.Refused("no", code=3)]
    data = codec.encode(values)
    samples.Ran.notes.clear()
    read = codec.decode(data)
    assert (samples.Ran.notes, read[2].code) == ([], 3)


def test_attributes_that_are_no_fields_are_kept() -> None:
    """What was set on an instance afterwards is part of it."""
    point = samples.Point(1)
    point.label = {"new"}  # type: ignore[attr-defined]
    rows = samples.Rows([1])
    rows.source = ("a", 1)  # type: ignore[attr-defined]
    read = back([point, rows])
    assert (read[0].label, read[1].source, read[1]) == ({"new"}, ("a", 1), [1])


def test_a_class_in_a_function_is_read_in_the_same_process() -> None:
    """Local classes round-trip while the class lives."""

    @dataclasses.dataclass
    class Local:
        x: int

    assert back(Local(3)) == Local(3)


@pytest.mark.parametrize(
    "data",
    [
        {"__type__": "builtins:eval", "args": ["1"]},
        {"lc": 2, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "false"}},
        ["serde.samples:Point", {"x": 1}],
        [32, b"\x90"],
        b"\xc1\x01\x91\xc4\x01\x90",
    ],
)
def test_data_that_looks_like_a_tag_stays_data(data: Any) -> None:
    """No dict, list or bytes of a user can pass for a tag of ours."""
    assert same(back(data), data)


def test_equal_sets_give_equal_bytes() -> None:
    """The order in which a set of texts or numbers was filled does not show."""
    one, other = set(), set()
    for number in (8, 0, 16, 1):
        one.add(number)
    for number in (1, 16, 0, 8):
        other.add(number)
    assert codec.encode(one) == codec.encode(other)


def test_a_plain_tree_is_plain_msgpack() -> None:
    """The common case is what any msgpack library reads."""
    import ormsgpack

    tree = {"messages": [{"role": "user", "content": "hi", "n": 1, "x": None}], "done": True}
    assert codec.encode(tree) == ormsgpack.packb(tree)


def test_a_number_of_any_size_is_stored() -> None:
    """Also one that Python would not print."""
    assert back([-(10**6000), 10**6000]) == [-(10**6000), 10**6000]


def test_a_process_may_store_a_memoryview_before_anything_else() -> None:
    """What is known of it is loaded late, and it has no module that would say so."""
    code = "from perdure.serde import Codec as C; print(bytes(C().decode(C().encode(memoryview(b'abc')))))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": "src"}
    )
    assert done.stdout == "b'abc'\n"
