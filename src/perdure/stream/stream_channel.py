"""The documented place of `StreamChannel`."""

from perdure.stream.channel import StreamChannel

__all__ = ["StreamChannel"]
