"""What a saver asks of a serializer, and an encrypting serializer of its cipher."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = [
    "CipherProtocol",
    "SerializerProtocol",
    "UntypedSerializerProtocol",
    "maybe_add_typed_methods",
]


@runtime_checkable
class SerializerProtocol(Protocol):
    """Turns values into tagged bytes and back."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """A tag that says how the bytes are to be read, and the bytes."""
        ...

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value of what `dumps_typed` gave."""
        ...


@runtime_checkable
class UntypedSerializerProtocol(Protocol):
    """Turns values into bytes and back."""

    def dumps(self, obj: Any) -> bytes: ...

    def loads(self, data: bytes) -> Any: ...


@runtime_checkable
class CipherProtocol(Protocol):
    """Encrypts and decrypts bytes."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """The cipher's name and the encrypted bytes."""
        ...

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """The bytes that were encrypted. Raises ValueError when they were changed since."""
        ...


class _Tagged:
    """A serializer without tags as one with: the tag is the name of the value's type."""

    def __init__(self, serde: UntypedSerializerProtocol) -> None:
        self.serde = serde

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return type(obj).__name__, self.serde.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return self.serde.loads(data[1])


def maybe_add_typed_methods(serde: SerializerProtocol | UntypedSerializerProtocol) -> SerializerProtocol:
    """The serializer itself, or wrapped where it has only `dumps` and `loads`."""
    return serde if isinstance(serde, SerializerProtocol) else _Tagged(serde)
