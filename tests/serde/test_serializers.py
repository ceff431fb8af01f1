"""The documented serializers."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from perdure.checkpoint.serde.base import (
    CipherProtocol,
    SerializerProtocol,
    maybe_add_typed_methods,
)
from perdure.checkpoint.serde.encrypted import EncryptedSerializer
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.errors import UnknownTypeError, UnstorableError
from perdure.serde import Codec
from serde import samples
from serde.samples import Plain, Point, same

POINT = [Point((1,))]


class Xor:
    """A toy that authenticates: good enough to see what is handed to a cipher."""

    def __init__(self, name: str = "xor") -> None:
        self.name = name

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        hidden = bytes(byte ^ 85 for byte in plaintext)
        return self.name, hashlib.sha256(hidden).digest() + hidden

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        digest, hidden = ciphertext[:32], ciphertext[32:]
        if ciphername != self.name or hashlib.sha256(hidden).digest() != digest:
            raise ValueError("tampered with")
        return bytes(byte ^ 85 for byte in hidden)


@pytest.mark.parametrize(
    ("value", "tag"),
    [(None, "null"), (b"a", "bytes"), (bytearray(b"a"), "bytearray"), ("a", "perdure"), (POINT, "perdure")],
)
@pytest.mark.parametrize("serde", [JsonPlusSerializer(), Codec()], ids=["serializer", "codec"])
def test_the_tag_says_what_the_bytes_are(serde: Any, value: Any, tag: str) -> None:
    """Raw bytes and None are themselves; all else is in the one format."""
    stored = serde.dumps_typed(value)
    assert stored[0] == tag
    assert same(serde.loads_typed(stored), value)


@pytest.mark.parametrize("serde", [JsonPlusSerializer(), Codec(), EncryptedSerializer(Xor())])
def test_serializers_fulfil_the_protocol(serde: Any) -> None:
    """A saver may ask."""
    assert isinstance(serde, SerializerProtocol)
    assert isinstance(Xor(), CipherProtocol)


@pytest.mark.parametrize("tag", ["json", "msgpack", "pickle", "other"])
def test_another_serializers_tag_is_refused(tag: str) -> None:
    """Bytes are never read as something else than they are."""
    with pytest.raises(NotImplementedError, match=repr(tag)):
        JsonPlusSerializer().loads_typed((tag, b"\x80\x04N."))


def test_what_cannot_be_stored_is_refused() -> None:
    """There is no fallback unless one asks for it by name."""
    with pytest.raises(UnstorableError, match=r"^\[0\], a serde\.samples\.Plain, cannot be stored$"):
        JsonPlusSerializer().dumps_typed([Plain()])


def test_pickle_is_a_fallback_by_name() -> None:
    """Only values that are refused are pickled, and only the flag reads them."""
    serde = JsonPlusSerializer(pickle_fallback=True)
    assert serde.dumps_typed(POINT)[0] == "perdure"
    stored = serde.dumps_typed([Plain()])
    assert stored[0] == "pickle"
    assert type(serde.loads_typed(stored)[0]) is Plain
    with pytest.raises(NotImplementedError):
        JsonPlusSerializer().loads_typed(stored)


@pytest.mark.parametrize("allowed", [None, [], ()])
def test_none_and_an_empty_list_allow_no_class(allowed: Any) -> None:
    """Strictness is one argument away."""
    stored = JsonPlusSerializer().dumps_typed(POINT)
    with pytest.raises(UnknownTypeError):
        JsonPlusSerializer(allowed_msgpack_modules=allowed).loads_typed(stored)


@pytest.mark.parametrize(
    "allowed", [True, [Point], [("serde.samples", "Point")], [("serde", "samples", "Point")]]
)
def test_a_list_allows_its_classes(allowed: Any) -> None:
    """By class or by place."""
    serde = JsonPlusSerializer(allowed_msgpack_modules=allowed)
    assert serde.loads_typed(serde.dumps_typed(POINT)) == POINT


def test_an_allow_list_can_be_extended() -> None:
    """The same object comes back where nothing changes."""
    strict = JsonPlusSerializer(allowed_msgpack_modules=None)
    extended = strict.with_allowlist([Point])
    assert extended.loads_typed(extended.dumps_typed(POINT)) == POINT
    assert extended.with_allowlist([Point]) is extended
    assert JsonPlusSerializer().with_allowlist([Point]).with_allowlist([Plain]) is not None
    with pytest.raises(UnstorableError):
        strict.dumps_typed(POINT)


def test_a_serializer_without_a_list_needs_no_extension() -> None:
    """It allows every data class already."""
    serde = JsonPlusSerializer()
    assert serde.with_allowlist([Point]) is serde


def test_the_environment_can_only_tighten(monkeypatch: pytest.MonkeyPatch) -> None:
    """PERDURE_STRICT_TYPES is read when a serializer is made; an argument wins."""
    monkeypatch.setenv("PERDURE_STRICT_TYPES", "true")
    with pytest.raises(UnstorableError):
        JsonPlusSerializer().dumps_typed(POINT)
    listed = JsonPlusSerializer(allowed_msgpack_modules=[Point])
    assert listed.loads_typed(listed.dumps_typed(POINT)) == POINT


def test_an_extension_hook_is_refused() -> None:
    """There is another way, and the error names it."""
    with pytest.raises(TypeError, match=r"perdure\.serde\.register"):
        JsonPlusSerializer(__unpack_ext_hook__=lambda code, data: None)


def test_a_serializer_without_tags_is_wrapped() -> None:
    """The tag is the name of the type."""

    class Text:
        def dumps(self, obj: Any) -> bytes:
            return repr(obj).encode()

        def loads(self, data: bytes) -> Any:
            return data.decode()

    serde = maybe_add_typed_methods(Text())
    assert serde.dumps_typed(5) == ("int", b"5")
    assert serde.loads_typed(("int", b"5")) == "5"
    assert maybe_add_typed_methods(serde) is serde


@pytest.mark.parametrize("value", [*samples.VALUES[:10], POINT], ids=samples.sample_id)
def test_encrypted_values_come_back(value: Any) -> None:
    """The tag names the inner one and the cipher."""
    serde = EncryptedSerializer(Xor())
    tag, data = serde.dumps_typed(value)
    assert tag.endswith("+xor")
    assert same(serde.loads_typed((tag, data)), value)


def test_nothing_of_an_encrypted_value_is_readable() -> None:
    """The bytes hold no text of the value."""
    assert b"secret" not in EncryptedSerializer(Xor()).dumps_typed({"a": "secret"})[1]


def test_another_tag_on_encrypted_bytes_is_noticed() -> None:
    """The tag is encrypted with the value."""
    serde = EncryptedSerializer(Xor())
    _, data = serde.dumps_typed({"a": 1})
    with pytest.raises(ValueError, match="'bytes' were encrypted under another tag"):
        serde.loads_typed(("bytes+xor", data))


def test_changed_bytes_are_noticed() -> None:
    """The cipher's refusal reaches the reader."""
    serde = EncryptedSerializer(Xor())
    tag, data = serde.dumps_typed({"a": 1})
    with pytest.raises(ValueError, match="tampered"):
        serde.loads_typed((tag, data[:-1] + b"\0"))


def test_bytes_of_before_encryption_are_read_unless_strict() -> None:
    """A store can be encrypted from some day on; a strict reader refuses plain rows."""
    plain = JsonPlusSerializer().dumps_typed(POINT)
    assert EncryptedSerializer(Xor()).loads_typed(plain) == POINT
    with pytest.raises(ValueError, match="not encrypted"):
        EncryptedSerializer(Xor(), strict=True).loads_typed(plain)


def test_an_encrypted_allow_list_can_be_extended() -> None:
    """The inner serializer decides."""
    strict = EncryptedSerializer(Xor(), JsonPlusSerializer(allowed_msgpack_modules=None), strict=True)
    extended = strict.with_allowlist([Point])
    assert extended.loads_typed(extended.dumps_typed(POINT)) == POINT
    assert extended.strict
    open_to_all = EncryptedSerializer(Xor())
    assert open_to_all.with_allowlist([Point]) is open_to_all


def test_aes_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is looked for is said."""
    monkeypatch.delenv("LANGGRAPH_AES_KEY", raising=False)
    with pytest.raises(ValueError, match="PERDURE_AES_KEY"):
        EncryptedSerializer.from_pycryptodome_aes()


@pytest.mark.parametrize("key", [b"", b"short", b"x" * 33])
def test_an_aes_key_has_one_of_three_lengths(key: bytes) -> None:
    """Another is refused, however it was given."""
    with pytest.raises(ValueError, match=f"this one has {len(key)}"):
        EncryptedSerializer.from_pycryptodome_aes(key=key)
