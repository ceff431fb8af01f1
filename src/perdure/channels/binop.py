"""The channel of keys with a reducer of two arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Self

from typing_extensions import override

from perdure.channels.base import Value
from perdure.channels.initial import concrete, empty_value
from perdure.channels.overwrites import WRAPPERS, replacement, second_overwrite
from perdure.channels.single import SingleValue
from perdure.typing import MISSING

__all__ = ["BinaryOperatorAggregate"]


class BinaryOperatorAggregate(SingleValue[Value], Generic[Value]):
    """Folds writes into its value, in order: `value = operator(value, write)`.

    It starts with the type's empty value where there is one, else with the first write. An
    Overwrite replaces the value; the other writes of that superstep are then without effect,
    wherever they stand.
    """

    __slots__ = ("operator",)

    reacts_to_silence: ClassVar[bool] = False

    def __init__(self, typ: Any, operator: Callable[[Value, Value], Value]) -> None:
        super().__init__(concrete(typ))
        self.operator = operator
        self.value = empty_value(self.typ)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, BinaryOperatorAggregate) and (
            other.operator == self.operator or _both_lambdas(self.operator, other.operator)
        )

    @override
    def from_checkpoint(self, checkpoint: Any) -> Self:
        channel = type(self)(self.typ, self.operator)
        channel.key = self.key
        if checkpoint is not MISSING:
            channel.value = checkpoint
        return channel

    @override
    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return False
        replaced = MISSING
        for write in values:
            if type(write) in WRAPPERS:
                new = replacement(write)
                if new is not MISSING:
                    if replaced is not MISSING:
                        raise second_overwrite(self.key)
                    replaced = new
        self.value = self._folded(values) if replaced is MISSING else replaced
        return True

    def _folded(self, values: Sequence[Value]) -> Any:
        value: Any = self.value
        operator = self.operator
        for write in values:
            value = write if value is MISSING else operator(value, write)
        return value


def _both_lambdas(one: object, other: object) -> bool:
    # A schema that is built again has new lambdas of the same text.
    return getattr(one, "__name__", None) == getattr(other, "__name__", None) == "<lambda>"
