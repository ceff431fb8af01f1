"""What a search filter means: one set of rules for every store.

A filter names keys of the value, each with the value it must equal or with operators; all of
them must hold. Equality is that of JSON: 1 equals 1.0, and no number equals true. Order holds
among numbers and among strings; other pairs are in no order. A key that is missing matches
nothing, not even `$ne` or None. Names of keys are taken as they are: a dot is a dot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perdure.slotted import slotted

__all__ = ["Condition", "json_equal", "matches", "parse"]

_MISSING = object()


@slotted(frozen=True)
class Condition:
    """One thing that must hold for one key."""

    key: str
    operator: str
    """One of the keys of OPERATORS."""
    operand: Any


def parse(filter: Mapping[str, Any] | None) -> list[Condition]:
    """The conditions of a filter. Raises ValueError for operators that there are not."""
    conditions: list[Condition] = []
    for key, wanted in (filter or {}).items():
        if _has_operators(key, wanted):
            conditions.extend(Condition(key, name, operand) for name, operand in wanted.items())
        else:
            conditions.append(Condition(key, "$eq", wanted))
    for condition in conditions:
        _check(condition)
    return conditions


def matches(value: Mapping[str, Any], conditions: list[Condition]) -> bool:
    """Whether a stored value fulfils all conditions."""
    for condition in conditions:
        actual = value.get(condition.key, _MISSING)
        if actual is _MISSING or not OPERATORS[condition.operator](actual, condition.operand):
            return False
    return True


def _has_operators(key: str, wanted: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return False
    operators = [name for name in wanted if isinstance(name, str) and name.startswith("$")]
    if operators and len(operators) < len(wanted):
        raise ValueError(
            f"the filter of key {key!r} mixes operators ({', '.join(operators)}) with plain keys; "
            'compare the whole value with {"$eq": ...}'
        )
    return bool(operators)


def _check(condition: Condition) -> None:
    if condition.operator not in OPERATORS:
        raise ValueError(
            f"Unsupported operator: {condition.operator} (key {condition.key!r}). "
            f"There are {', '.join(OPERATORS)}."
        )
    if condition.operator == "$in" and not isinstance(condition.operand, list | tuple):
        raise ValueError(f"$in of key {condition.key!r} takes a list, not {condition.operand!r}")


def json_equal(one: Any, other: Any) -> bool:
    """Equality of two JSON values."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(json_equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(json_equal, one, other))
    return bool(one == other)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ordered(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(actual: Any, operand: Any) -> bool:
        comparable = (_is_number(actual) and _is_number(operand)) or (
            isinstance(actual, str) and isinstance(operand, str)
        )
        return comparable and holds(actual, operand)

    return compare


OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": json_equal,
    "$ne": lambda actual, operand: not json_equal(actual, operand),
    "$gt": _ordered(lambda actual, operand: actual > operand),
    "$gte": _ordered(lambda actual, operand: actual >= operand),
    "$lt": _ordered(lambda actual, operand: actual < operand),
    "$lte": _ordered(lambda actual, operand: actual <= operand),
    "$in": lambda actual, operand: any(json_equal(actual, one) for one in operand),
}
