"""A channel that collects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, Self

from typing_extensions import override

from perdure.channels.base import BaseChannel, Value
from perdure.errors import EmptyChannelError
from perdure.typing import MISSING

__all__ = ["Topic"]


class Topic(BaseChannel[Sequence[Value], Value | list[Value], list[Value]], Generic[Value]):
    """Holds all values written in the superstep before; a written list counts as its elements.

    Args:
        typ: Type of one element.
        accumulate: Keep the elements of earlier supersteps, too.
    """

    __slots__ = ("accumulate", "values")

    def __init__(self, typ: Any, accumulate: bool = False) -> None:
        super().__init__(typ)
        self.accumulate = accumulate
        self.values: list[Value] = []

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topic) and other.accumulate == self.accumulate

    @property
    @override
    def ValueType(self) -> Any:
        return Sequence[self.typ]  # type: ignore[name-defined]  # made at run time

    @property
    @override
    def UpdateType(self) -> Any:
        return self.typ | list[self.typ]  # type: ignore[name-defined]

    @override
    def from_checkpoint(self, checkpoint: Any) -> Self:
        channel = type(self)(self.typ, self.accumulate)
        channel.key = self.key
        if checkpoint is not MISSING:
            # Old data has the values it once had seen in front.
            values = checkpoint[1] if isinstance(checkpoint, tuple) else checkpoint
            channel.values = list(values)
        return channel

    @override
    def checkpoint(self) -> Any:
        return list(self.values) if self.values else MISSING

    @override
    def get(self) -> Sequence[Value]:
        if not self.values:
            raise EmptyChannelError
        return list(self.values)

    @override
    def is_available(self) -> bool:
        return bool(self.values)

    @override
    def update(self, values: Sequence[Value | list[Value]]) -> bool:
        changed = False
        if not self.accumulate and self.values:
            self.values = []
            changed = True
        if values:
            before = len(self.values)
            self.values.extend(_elements(values))
            changed = changed or len(self.values) > before
        return changed


def _elements(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from value
        else:
            yield value
