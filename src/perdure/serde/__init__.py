"""Values to bytes and back, and which types may live in them."""

from perdure.serde.codec import Codec
from perdure.serde.digest import digest, digest_call
from perdure.serde.faults import CorruptBytesError
from perdure.serde.registry import Registry, default_registry, register

__all__ = [
    "Codec",
    "CorruptBytesError",
    "Registry",
    "default_registry",
    "digest",
    "digest_call",
    "register",
]
