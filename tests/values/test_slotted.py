"""Slotted classes behave as the dataclasses they stand in for."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any, Generic, TypeVar

import pytest

from perdure.slotted import field, replace, slotted, values

T = TypeVar("T")


@slotted
class Point:
    """A place."""

    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list)
    norm: int = field(init=False)
    kind: str = field(init=False, default="point")

    def __post_init__(self) -> None:
        self.norm = abs(self.x) + abs(self.y)


@slotted(frozen=True, kw_only=True)
class Pair(Generic[T]):
    left: T
    right: T | None = None


@slotted(eq=False)
class Thing:
    name: str


def test_fields_are_slots() -> None:
    """Only fields can be set, and the class keeps its name, text and methods."""
    point: Any = Point(1)
    with pytest.raises(AttributeError):
        point.z = 3
    assert (Point.__qualname__, Point.__doc__, point.x, point.y, point.kind) == (
        "Point",
        "A place.",
        1,
        0,
        "point",
    )


def test_each_value_has_its_own_default() -> None:
    """A default that is made anew is not shared, and one that is given is taken as it is."""
    given: list[str] = []
    assert Point(1).tags is not Point(1).tags
    assert Point(1, 2, given).tags is given


def test_a_field_left_out_of_init_is_worked_out() -> None:
    """`__post_init__` sets it, also for the copy that `replace` makes."""
    assert replace(Point(1, 2), x=-5).norm == 7


def test_values_are_compared_by_their_fields() -> None:
    """Equal fields make equal values, of one class; such values have no hash unless frozen."""
    assert Point(1) == Point(1) != Point(2)
    assert Point(1) != (1, 0, [], 1, "point")
    assert hash(Pair(left=1)) == hash(Pair(left=1))
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1))


def test_without_eq_a_value_equals_itself_only() -> None:
    """`eq=False` leaves identity and its hash."""
    thing = Thing("a")
    assert thing == thing != Thing("a")
    assert len({thing, Thing("a")}) == 2


def test_a_frozen_value_stays_as_it_is() -> None:
    """Fields are neither set nor deleted."""
    pair: Any = Pair(left=1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'left'"):
        pair.left = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'left'"):
        del pair.left


def test_keyword_only_takes_no_positions() -> None:
    """Neither a call nor a pattern goes by order."""
    made: Any = Pair
    with pytest.raises(TypeError, match="positional"):
        made(1)
    assert (made.__match_args__, Point.__match_args__) == ((), ("x", "y", "tags"))


@pytest.mark.parametrize("value", [Point(1, 2, ["a"]), Pair(left=[1], right=[2])])
def test_copies_are_equal(value: Any) -> None:
    """`copy`, `deepcopy` and `pickle` give the value again."""
    assert copy.copy(value) == copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == value


def test_a_value_shows_its_fields() -> None:
    """The text names every field; `values` gives them in order."""
    assert repr(Pair(left=1)) == "Pair(left=1, right=None)"
    assert values(Point(1)) == (1, 0, [], 1, "point")
