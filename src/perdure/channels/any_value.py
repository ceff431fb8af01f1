"""A channel for writers that are known to agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from typing_extensions import override

from perdure.channels.base import Value
from perdure.channels.overwrites import plain
from perdure.channels.single import SingleValue
from perdure.typing import MISSING

__all__ = ["AnyValue"]


class AnyValue(SingleValue[Value], Generic[Value]):
    """Keeps the last of the values written in a superstep, for one superstep."""

    __slots__ = ()

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyValue)

    @override
    def update(self, values: Sequence[Value]) -> bool:
        if values:
            self.value = plain(values[-1])
            return True
        if self.value is MISSING:
            return False
        self.value = MISSING
        return True
