"""Several projections read as one, in the order in which their items came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from perdure.stream.channel import StreamChannel

if TYPE_CHECKING:
    from perdure.stream.router import EventRouter


def interleave(router: EventRouter, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yields (name, item). See `GraphRunStream.interleave`."""
    taken: dict[str, StreamChannel[Any]] = {}
    try:
        for name in names:
            channel = _channel(router, name)
            channel.subscribe(is_async=False)
            taken[name] = channel
        yield from _merged(router, taken)
    finally:
        for channel in taken.values():
            channel.unsubscribe()


def _channel(router: EventRouter, name: str) -> StreamChannel[Any]:
    if name not in router.extensions:
        raise KeyError(f"{name!r} is no projection of this run; there are {', '.join(router.extensions)}")
    channel = router.extensions[name]
    if not isinstance(channel, StreamChannel):
        raise TypeError(f"the projection {name!r} is no StreamChannel: {channel!r} cannot be interleaved")
    return channel


def _merged(router: EventRouter, channels: dict[str, StreamChannel[Any]]) -> Iterator[tuple[str, Any]]:
    def ready() -> bool:
        return any(channel.items for channel in open_.values()) or all(c.closed for c in open_.values())

    open_ = dict(channels)
    while open_:
        ended = [name for name, channel in open_.items() if channel.closed]
        waiting = [(channel.items[0][0], name) for name, channel in open_.items() if channel.items]
        if waiting:
            _, name = min(waiting)
            yield name, open_[name].items.popleft()[1]
            continue
        for name in ended:
            error = open_.pop(name).error
            if error is not None:
                raise error
        if open_ and not ended and not router.pull(ready) and not ready():
            return
