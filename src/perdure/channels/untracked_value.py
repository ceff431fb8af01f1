"""A channel that is never stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Self

from typing_extensions import override

from perdure.channels.base import Value
from perdure.channels.overwrites import plain, too_many
from perdure.channels.single import GuardedValue
from perdure.typing import MISSING

__all__ = ["UntrackedValue"]


class UntrackedValue(GuardedValue[Value], Generic[Value]):
    """Keeps the last value while the run lasts; a resumed run finds it empty.

    For what cannot be stored or should not be: connections, clients, big caches.

    Args:
        guard: Refuse several values in one superstep; without it the last one counts.
    """

    __slots__ = ()

    reacts_to_silence: ClassVar[bool] = False

    @override
    def copy(self) -> Self:
        channel = super().from_checkpoint(MISSING)
        channel.value = self.value
        return channel

    @override
    def checkpoint(self) -> Any:
        return MISSING

    @override
    def from_checkpoint(self, checkpoint: Any) -> Self:
        return super().from_checkpoint(MISSING)

    @override
    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return False
        if self.guard and len(values) != 1:
            raise too_many(self.key, "Use UntrackedValue(guard=False) to keep the last one.")
        self.value = plain(values[-1])
        return True
