"""Between values and stored bytes: our codec, or a serializer that the user brought."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ormsgpack import packb
from xxhash import xxh3_128_digest

from perdure.errors import UnstorableError
from perdure.serde.codec import Codec
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
        """Fingerprint of a value that was just read from these bytes."""
        ...

    def with_types(self, types: tuple[Any, ...]) -> Wire:
        """A wire that may build these types too; itself where that changes nothing."""
        ...


class CodecWire:
    """Values go through our own codec; equal content gives equal bytes."""

    def __init__(self, codec: Codec) -> None:
        self.serde: Codec = codec
        self._encode: Callable[[Any], bytes] = codec.encode
        self.decode: Callable[[bytes], Any] = codec.decode

    def encode(self, value: Any, /) -> bytes:
        if type(value) in _PLAIN:
            try:
                return packb(value)  # what the codec would say, sooner
            except TypeError:
                pass  # too great a number, or text that is not Unicode
        return self._encode(value)

    def mark(self, value: Any) -> tuple[tuple[bytes], bytes | None]:
        data = self._encode(value)
        return (xxh3_128_digest(data),), data

    def mark_stored(self, value: Any, data: bytes) -> tuple[bytes]:
        return (xxh3_128_digest(data),)

    def with_types(self, types: tuple[Any, ...]) -> Wire:
        if not types:
            return self
        registry = Registry(strict=self.serde.registry.strict, base=self.serde.registry)
        for cls in types:
            registry.allow(*((cls.__module__, cls.__qualname__) if isinstance(cls, type) else cls))
        return CodecWire(Codec(registry))


class TypedWire:
    """Values go through a user's serializer, whose type tag is kept before the bytes.

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
        end = 2 + int.from_bytes(data[:2], "big")
        return self._typed.loads_typed((data[2:end].decode(), data[end:]))

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
        extended = _extended(self.serde, types)
        return self if extended is self.serde else wire(extended)


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
        return CodecWire(Codec())
    if isinstance(serde, Codec):
        return CodecWire(serde)
    if hasattr(serde, "dumps_typed") and hasattr(serde, "loads_typed"):
        return TypedWire(serde, serde)
    if hasattr(serde, "dumps") and hasattr(serde, "loads"):
        return TypedWire(serde, _Tagged(serde))
    raise TypeError(
        f"serde is a {type(serde).__qualname__}; give an object with dumps_typed and loads_typed, "
        "or with dumps and loads"
    )


def _extended(serde: Any, types: tuple[Any, ...]) -> Any:
    extend = getattr(serde, "with_allowlist", None) or getattr(serde, "with_msgpack_allowlist", None)
    return extend(types) if extend is not None and types else serde
