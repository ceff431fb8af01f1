"""How several writes to one key become one value."""

from perdure.channels.any_value import AnyValue
from perdure.channels.base import BaseChannel
from perdure.channels.binop import BinaryOperatorAggregate
from perdure.channels.delta import DeltaChannel
from perdure.channels.ephemeral_value import EphemeralValue
from perdure.channels.last_value import LastValue, LastValueAfterFinish
from perdure.channels.named_barrier_value import NamedBarrierValue, NamedBarrierValueAfterFinish
from perdure.channels.topic import Topic
from perdure.channels.untracked_value import UntrackedValue

__all__ = [
    "BaseChannel",
    "LastValue",
    "LastValueAfterFinish",
    "AnyValue",
    "EphemeralValue",
    "UntrackedValue",
    "Topic",
    "BinaryOperatorAggregate",
    "DeltaChannel",
    "NamedBarrierValue",
    "NamedBarrierValueAfterFinish",
]
