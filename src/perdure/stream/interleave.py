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


def _merged(router: EventRouter, taken: dict[str, StreamChannel[Any]]) -> Iterator[tuple[str, Any]]:
    channels = list(taken.items())

    def ready() -> bool:
        for _, channel in channels:  # noqa: SIM110  # quicker than a generator; this runs once an event
            if channel.items or channel.closed:
                return True
        return False

    while channels:
        first, arrived, ended = None, 0, []
        for pair in channels:
            closed, items = pair[1].closed, pair[1].items  # In this order: what is closed gets no more.
            if items:
                if first is None or items[0][0] < arrived:
                    first, arrived = pair, items[0][0]
            elif closed:
                ended.append(pair)
        if first is not None:
            yield first[0], first[1].items.popleft()[1]
            continue
        for pair in ended:
            if pair[1].error is not None:
                raise pair[1].error
            channels.remove(pair)
        if not ended and not router.pull(ready) and not ready():
            return
