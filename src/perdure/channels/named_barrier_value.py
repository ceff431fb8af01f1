"""Channels that wait for several writers: joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Self

from typing_extensions import override

from perdure.channels.base import BaseChannel, Value
from perdure.errors import EmptyChannelError, InvalidUpdateError
from perdure.typing import MISSING

__all__ = ["NamedBarrierValue", "NamedBarrierValueAfterFinish"]


class NamedBarrierValue(BaseChannel[Value, Value, set[Value]], Generic[Value]):
    """Becomes available when each of its names was written since it was last consumed."""

    __slots__ = ("names", "seen")

    reacts_to_silence: ClassVar[bool] = False

    def __init__(self, typ: Any, names: set[Value]) -> None:
        super().__init__(typ)
        self.names = names
        self.seen: set[Value] = set()

    @override
    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.names == self.names

    @override
    def from_checkpoint(self, checkpoint: Any) -> Self:
        channel = type(self)(self.typ, self.names)
        channel.key = self.key
        if checkpoint is not MISSING:
            channel.seen = set(checkpoint)
        return channel

    @override
    def checkpoint(self) -> Any:
        return set(self.seen) if self.seen else MISSING

    @override
    def get(self) -> Value:
        if not self.is_available():
            raise EmptyChannelError
        return None  # type: ignore[return-value]  # the news is the value

    @override
    def is_available(self) -> bool:
        return self.seen == self.names

    @override
    def update(self, values: Sequence[Value]) -> bool:
        unknown = [value for value in values if value not in self.names]
        if unknown:
            raise InvalidUpdateError(
                f"At key {self.key!r}: Value {unknown[0]!r} not in {_listed(self.names)}"
            )
        before = len(self.seen)
        self.seen.update(values)
        return len(self.seen) > before

    @override
    def consume(self) -> bool:
        if not self.is_available():
            return False
        self.seen = set()
        return True


class NamedBarrierValueAfterFinish(NamedBarrierValue[Value], Generic[Value]):
    """The same, but available only when the run is about to end. Joins into deferred nodes."""

    __slots__ = ("finished",)

    def __init__(self, typ: Any, names: set[Value]) -> None:
        super().__init__(typ, names)
        self.finished = False

    @override
    def from_checkpoint(self, checkpoint: Any) -> Self:
        if checkpoint is MISSING:
            return super().from_checkpoint(MISSING)
        seen, finished = checkpoint
        channel = super().from_checkpoint(seen)
        channel.finished = finished
        return channel

    @override
    def checkpoint(self) -> Any:
        return (set(self.seen), self.finished) if self.seen else MISSING

    @override
    def is_available(self) -> bool:
        return self.finished and self.seen == self.names

    @override
    def consume(self) -> bool:
        consumed = super().consume()
        if consumed:
            self.finished = False
        return consumed

    @override
    def finish(self) -> bool:
        if self.finished or self.seen != self.names:
            return False
        self.finished = True
        return True


def _listed(names: set[Any]) -> str:
    return "{" + ", ".join(sorted(map(repr, names))) + "}"
