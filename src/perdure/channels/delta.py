"""The channel of keys whose reducer takes all writes of a superstep at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Self

from typing_extensions import override

from perdure.channels.base import Value
from perdure.channels.initial import concrete, empty_value
from perdure.channels.overwrites import WRAPPERS, replacement, second_overwrite
from perdure.channels.single import SingleValue
from perdure.typing import MISSING

__all__ = ["DeltaChannel"]


class DeltaChannel(SingleValue[Value], Generic[Value]):
    """Reduces all writes of a superstep in one call: `value = reducer(value, [write, ...])`.

    The reducer must not mind how writes are batched: reducing `[a, b]` gives what reducing
    `[a]` and then `[b]` does. An Overwrite replaces the value; the other writes of that
    superstep are then without effect.

    The class exists in the documented interface to keep checkpoints of long histories small.
    Here every channel's storage grows with what is new (savers keep lists as slices over
    shared segments), so that checkpoints hold the whole value, no history is walked when a
    thread is loaded, and `snapshot_frequency` is only checked and kept.

    Args:
        typ: Type of the value; its empty value is the first one. A list if not given.
        snapshot_frequency: Number of updates between full snapshots, at least 1.
    """

    __slots__ = ("reducer", "snapshot_frequency")

    reacts_to_silence: ClassVar[bool] = False

    def __init__(
        self,
        reducer: Callable[[Any, Sequence[Any]], Any],
        typ: Any = None,
        *,
        snapshot_frequency: int = 100,
    ) -> None:
        if not isinstance(snapshot_frequency, int) or snapshot_frequency < 1:
            raise ValueError(f"snapshot_frequency must be a positive int, got {snapshot_frequency!r}")
        super().__init__(list if typ is None else concrete(typ))
        self.reducer = reducer
        self.snapshot_frequency = snapshot_frequency
        self.value = empty_value(self.typ)

    @override
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DeltaChannel)
            and other.reducer == self.reducer
            and other.snapshot_frequency == self.snapshot_frequency
        )

    @override
    def from_checkpoint(self, checkpoint: Any) -> Self:
        channel = type(self)(self.reducer, self.typ, snapshot_frequency=self.snapshot_frequency)
        channel.key = self.key
        if checkpoint is not MISSING:
            channel.value = checkpoint
        return channel

    @override
    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        overwrites = [
            new for write in values if type(write) in WRAPPERS and (new := replacement(write)) is not MISSING
        ]
        if len(overwrites) > 1:
            raise second_overwrite(self.key)
        if overwrites:
            self.value = overwrites[0]
        else:
            self.value = self.reducer(None if self.value is MISSING else self.value, values)
        return True
