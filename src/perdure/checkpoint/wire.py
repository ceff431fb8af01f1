"""Between values and stored bytes: our codec, or a serializer that the user brought.

What our codec made lies in the store as it is; what a user's serializer made has its tag before
it: a length of two bytes, the first of which is zero, the tag, the bytes. No bytes of our codec
but the number 0 alone begin so, hence a store may change over from one to the other at any time
and old values are still read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ormsgpack import packb
from xxhash import xxh3_128_digest

from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.errors import UnstorableError
from perdure.serde.codec import TAG, Codec
from perdure.serde.registry import Registry

__all__ = ["Wire", "wire"]

_PLAIN = frozenset({int, str, float, bool, type(None)})


class Wire(Protocol):
    """How one saver turns values into bytes and back."""

    serde: Any
    """What the user gave, or sees as the saver's `serde`."""

    def encode(self, value: Any, /) -> bytes:
        """The bytes of a value; raises TypeError for one that cannot be stored."""
        ...

    def decode(self, data: bytes, /) -> Any:
        """The value of bytes that `encode` made."""
        ...

    def mark(self, value: Any) -> tuple[tuple[bytes], bytes | None]:
        """Fingerprint of a value, the same for the same content, and its bytes if at hand."""
        ...

    def mark_stored(self, value: Any, data: bytes) -> tuple[bytes]:
        """Fingerprint of a value that was just read from, or made into, these bytes."""
        ...

    def with_types(self, types: tuple[Any, ...]) -> Wire:
        """A wire that may build these types too; itself where that changes nothing."""
        ...


class CodecWire:
    """Values go through our own codec; equal content gives equal bytes."""

    def __init__(self, codec: Codec, serde: Any) -> None:
        self.serde = serde
        self._codec = codec
        self._encode: Callable[[Any], bytes] = codec.encode
        self._decode: Callable[[bytes], Any] = codec.decode

    def encode(self, value: Any, /) -> bytes:
        if type(value) in _PLAIN:
            try:
                return packb(value)  # what the codec would say, sooner
            except TypeError:
                pass  # too great a number, or text that is not Unicode
        return self._encode(value)

    def decode(self, data: bytes, /) -> Any:
        if data[:1] == b"\0" and len(data) > 1:
            return self._codec.loads_typed(_untagged(data))
        return self._decode(data)

    def mark(self, value: Any) -> tuple[tuple[bytes], bytes | None]:
        data = self._encode(value)
        return (xxh3_128_digest(data),), data

    def mark_stored(self, value: Any, data: bytes) -> tuple[bytes]:
        return (xxh3_128_digest(data),)

    def with_types(self, types: tuple[Any, ...]) -> Wire:
        if self.serde is not self._codec:
            return _extended(self, types)
        if not types or not self._codec.registry.strict:
            return self
        registry = Registry(strict=True, base=self._codec.registry)
        for cls in types:
            registry.allow(*((cls.__module__, cls.__qualname__) if isinstance(cls, type) else cls))
        return wire(Codec(registry))


class TypedWire:
    """Values go through a user's serializer.

    Its bytes may differ each time (encryption), so that content is told by our own codec where
    that can encode the value.
    """

    def __init__(self, serde: Any, typed: Any) -> None:
        self.serde = serde
        self._typed = typed
        self._codec = Codec()

    def encode(self, value: Any, /) -> bytes:
        tag: str
        data: bytes
        tag, data = self._typed.dumps_typed(value)
        name = tag.encode()
        return len(name).to_bytes(2, "big") + name + data

    def decode(self, data: bytes, /) -> Any:
        tagged = data[:1] == b"\0" and len(data) > 1
        return self._typed.loads_typed(_untagged(data) if tagged else (TAG, data))

    def mark(self, value: Any) -> tuple[tuple[bytes], bytes | None]:
        try:
            return (xxh3_128_digest(self._codec.encode(value)),), None
        except UnstorableError:
            data = self.encode(value)
            return (xxh3_128_digest(data),), data

    def mark_stored(self, value: Any, data: bytes) -> tuple[bytes]:
        try:
            return (xxh3_128_digest(self._codec.encode(value)),)
        except UnstorableError:
            return (xxh3_128_digest(data),)

    def with_types(self, types: tuple[Any, ...]) -> Wire:
        return _extended(self, types)


class _Tagged:
    """An untyped serializer as a typed one; the name of a value's type is its tag."""

    def __init__(self, serde: Any) -> None:
        self._serde = serde

    def dumps_typed(self, value: Any) -> tuple[str, bytes]:
        return type(value).__name__, self._serde.dumps(value)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return self._serde.loads(data[1])


def wire(serde: Any = None) -> Wire:
    """The wire for what was given as `serde=`."""
    if serde is None:
        serde = Codec()
    if isinstance(serde, Codec):
        return CodecWire(serde, serde)
    if type(serde) is JsonPlusSerializer and not serde.pickle_fallback:
        return CodecWire(serde.codec, serde)
    if hasattr(serde, "dumps_typed") and hasattr(serde, "loads_typed"):
        return TypedWire(serde, serde)
    if hasattr(serde, "dumps") and hasattr(serde, "loads"):
        return TypedWire(serde, _Tagged(serde))
    raise TypeError(
        f"serde is a {type(serde).__qualname__}; give an object with dumps_typed and loads_typed, "
        "or with dumps and loads"
    )


def _untagged(data: bytes) -> tuple[str, bytes]:
    end = 2 + int.from_bytes(data[:2], "big")
    return data[2:end].decode(), data[end:]


def _extended(present: Wire, types: tuple[Any, ...]) -> Wire:
    serde = present.serde
    extend = getattr(serde, "with_allowlist", None) or getattr(serde, "with_msgpack_allowlist", None)
    extended = extend(types) if extend is not None and types else serde
    return present if extended is serde else wire(extended)
