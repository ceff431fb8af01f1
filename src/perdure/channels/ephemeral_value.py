"""A channel whose value lasts one superstep: inputs and triggers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

from typing_extensions import override

from perdure.channels.base import Value
from perdure.channels.overwrites import too_many
from perdure.channels.single import GuardedValue
from perdure.types import Overwrite
from perdure.typing import MISSING

__all__ = ["EphemeralValue"]


class EphemeralValue(GuardedValue[Value], Generic[Value]):
    """Holds the value written in the superstep before, and then none.

    Args:
        guard: Refuse several values in one superstep; without it the last one counts.
    """

    __slots__ = ()

    @override
    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            if self.value is MISSING:
                return False
            self.value = MISSING
            return True
        if self.guard and len(values) != 1:
            raise too_many(self.key, "Use EphemeralValue(guard=False) to keep the last one.")
        value: Any = values[-1]
        # Inputs pass through here, and a dict that looks like an Overwrite is a legal input.
        self.value = value.value if type(value) is Overwrite else value
        return True
