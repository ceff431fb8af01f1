"""Serialized values, encrypted at rest."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from perdure.checkpoint.serde.base import CipherProtocol, SerializerProtocol
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer

__all__ = ["EncryptedSerializer"]

_KEY_VARIABLES = ("PERDURE_AES_KEY", "LANGGRAPH_AES_KEY")
_KEY_LENGTHS = (16, 24, 32)


class EncryptedSerializer:
    """Encrypts what another serializer made.

    The inner tag is encrypted with the bytes, so that a row cannot be given another tag unnoticed.

    Args:
        cipher: Encrypts and authenticates; must refuse bytes that were changed.
        serde: What turns values into bytes.
        strict: Refuse to read bytes that are not encrypted. Off by default, so that a store can
            be encrypted from some day on.
    """

    def __init__(
        self, cipher: CipherProtocol, serde: SerializerProtocol | None = None, *, strict: bool = False
    ) -> None:
        self.cipher = cipher
        self.serde: SerializerProtocol = JsonPlusSerializer() if serde is None else serde
        self.strict = strict

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The tag, `<inner>+<cipher>`, and the encrypted bytes."""
        tag, data = self.serde.dumps_typed(obj)
        name = tag.encode()
        cipher, encrypted = self.cipher.encrypt(len(name).to_bytes(2, "big") + name + data)
        return f"{tag}+{cipher}", encrypted

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value. Raises ValueError when the bytes or their tag were changed."""
        outer, encrypted = data
        tag, plus, cipher = outer.partition("+")
        if not plus:
            if self.strict:
                raise ValueError(f"bytes tagged {tag!r} are not encrypted, and strict=True refuses those")
            return self.serde.loads_typed(data)
        content = self.cipher.decrypt(cipher, encrypted)
        end = 2 + int.from_bytes(content[:2], "big")
        if content[2:end] != tag.encode():
            raise ValueError(
                f"bytes tagged {tag!r} were encrypted under another tag; they were tampered with"
            )
        return self.serde.loads_typed((tag, content[end:]))

    def with_allowlist(self, extra: Any) -> EncryptedSerializer:
        """A serializer that may read these classes too; itself where that changes nothing."""
        extend = getattr(self.serde, "with_allowlist", None)
        inner = extend(extra) if extend is not None else self.serde
        return self if inner is self.serde else EncryptedSerializer(self.cipher, inner, strict=self.strict)

    @classmethod
    def from_pycryptodome_aes(
        cls, serde: SerializerProtocol | None = None, *, strict: bool = False, **kwargs: Any
    ) -> EncryptedSerializer:
        """Encrypts with AES of the `pycryptodome` package.

        Args:
            serde: What turns values into bytes.
            strict: Refuse to read bytes that are not encrypted.
            kwargs: `key` (16, 24 or 32 bytes; by default the environment variable
                PERDURE_AES_KEY or LANGGRAPH_AES_KEY), `mode` (by default EAX; must be one that
                authenticates), and what else `Crypto.Cipher.AES.new` takes.

        Raises:
            ValueError: There is no key, or it has another length.
        """
        return cls(_Aes(**kwargs), serde, strict=strict)


class _Aes:
    """AES in an authenticating mode; nonce and tag of 16 bytes each stand before the bytes."""

    def __init__(self, *, key: bytes | None = None, mode: int | None = None, **options: Any) -> None:
        self._key = _checked(key if key is not None else _key_of_environment())
        aes: Any = import_module("Crypto.Cipher.AES")
        self._new = aes.new
        self._mode = aes.MODE_EAX if mode is None else mode
        self._options = options

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        cipher = self._new(self._key, self._mode, nonce=os.urandom(16), **self._options)
        encrypted, tag = cipher.encrypt_and_digest(plaintext)
        return "aes", cipher.nonce + tag + encrypted

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        if ciphername != "aes":
            raise ValueError(f"the bytes are encrypted with {ciphername!r}, not with 'aes'")
        nonce, tag, encrypted = ciphertext[:16], ciphertext[16:32], ciphertext[32:]
        cipher = self._new(self._key, self._mode, nonce=nonce, **self._options)
        content: bytes = cipher.decrypt_and_verify(encrypted, tag)
        return content


def _key_of_environment() -> bytes:
    for name in _KEY_VARIABLES:
        key = os.environ.get(name)
        if key is not None:
            return key.encode()
    raise ValueError(f"there is no key: give key=, or set {_KEY_VARIABLES[0]}")


def _checked(key: bytes) -> bytes:
    if len(key) not in _KEY_LENGTHS:
        raise ValueError(f"an AES key has 16, 24 or 32 bytes, this one has {len(key)}")
    return key
