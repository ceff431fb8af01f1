"""The door to this room: values to bytes, bytes to values, values to digests."""

from __future__ import annotations

from typing import Any

from xxhash import xxh3_128_hexdigest

from perdure.serde import kinds
from perdure.serde.decode import Decoding
from perdure.serde.encode import Digesting, Encoding
from perdure.serde.faults import type_name
from perdure.serde.locate import explained
from perdure.serde.registry import Registry, default_registry

kinds.fill_tables()

TAG = "perdure"
"""What tagged bytes of our format are called."""


class Codec:
    """Turns values into bytes and back, exactly: equal values of the same types.

    Args:
        registry: Which classes may live in the bytes.
    """

    def __init__(self, registry: Registry = default_registry) -> None:
        self.registry = registry
        # What may not be stored still tells one call from another.
        self._lenient = Registry(base=registry) if registry.strict else registry

    def encode(self, value: Any) -> bytes:
        """The bytes of a value.

        Raises:
            UnstorableError: Something in it cannot be stored; its `path` says where.
            Exception: What a registered encoder raised, with the path as a note.
        """
        try:
            return Encoding(self.registry).document(value)
        except Exception as error:
            failed = explained(self.registry, value, error)
            if failed is error:
                raise
            raise failed from None

    def decode(self, data: bytes) -> Any:
        """The value of bytes that `encode` made.

        Raises:
            CorruptBytesError: The bytes are not ours, or not all of them.
            UnknownTypeError: They name a class that may not be built here.
            Exception: What a registered decoder raised.
        """
        return Decoding(self.registry).document(data)

    def dumps_typed(self, value: Any) -> tuple[str, bytes]:
        """A tag and the bytes, as the documented serializers give them. Raises as `encode` does."""
        if value is None:
            return "null", b""
        if type(value) is bytes or type(value) is bytearray:
            return type(value).__name__, bytes(value)
        return TAG, self.encode(value)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value of what `dumps_typed` made. Raises as `decode` does, and NotImplementedError
        for a tag of another serializer."""
        tag, payload = data
        if tag == TAG:
            return self.decode(payload)
        if tag == "null":
            return None
        if tag == "bytes":
            return bytes(payload)
        if tag == "bytearray":
            return bytearray(payload)
        raise NotImplementedError(f"the tag {tag!r} was written by another serializer; read it with that one")

    def digest(self, value: Any) -> str:
        """A hash that is equal for equal values in every process; never raises.

        Sets count without order. What cannot be stored counts by the name of its type.
        """
        try:
            if type(value) is tuple:  # as arguments are: spares them a level
                data = Digesting(self._lenient).document(list(value)) + b"t"
            else:
                data = Digesting(self._lenient).document(value)
        except Exception:  # contains itself, or changed meanwhile
            data = type_name(type(value)).encode("utf-8", "surrogatepass")
        return xxh3_128_hexdigest(data)
