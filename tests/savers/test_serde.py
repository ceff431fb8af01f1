"""Savers with another serializer than the default one."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.serde.encrypted import EncryptedSerializer
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import UnknownTypeError
from perdure.serde.codec import Codec
from perdure.serde.registry import Registry, default_registry
from savers.makers import checkpoint, config

LONG = "long enough to lie in a row of its own " * 3


@dataclass
class Thing:
    name: str


class Cipher:
    """Bytes that differ each time they are made."""

    def __init__(self) -> None:
        self._numbers = count()

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        nonce = next(self._numbers).to_bytes(4, "big")
        return "toy", nonce + bytes(byte ^ 0x55 ^ nonce[-1] for byte in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return bytes(byte ^ 0x55 ^ ciphertext[3] for byte in ciphertext[4:])


class Typed:
    """A user's serializer of the documented kind."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return "pickled", pickle.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        assert data[0] == "pickled"
        return pickle.loads(data[1])


class Untyped:
    """A serializer without tags."""

    dumps = staticmethod(pickle.dumps)
    loads = staticmethod(pickle.loads)


SERIALIZERS: dict[str, Callable[[], Any]] = {
    "codec": Codec,
    "jsonplus": JsonPlusSerializer,
    "pickle fallback": lambda: JsonPlusSerializer(pickle_fallback=True),
    "encrypted": lambda: EncryptedSerializer(Cipher()),
    "typed": Typed,
    "untyped": Untyped,
}
VALUES: dict[str, Any] = {
    "none": None,
    "zero": 0,
    "text": LONG,
    "messages": [{"id": n, "text": LONG} for n in range(40)],
    "numbers": list(range(100)),
    "thing": Thing("x" * 50),
    "dict": {"a": LONG * 9, "l": [Fraction(1, 3), (1, 2)]},
}


@pytest.fixture(params=SERIALIZERS)
def serde(request: pytest.FixtureRequest) -> Any:
    return SERIALIZERS[request.param]()


@pytest.mark.parametrize("memory", [True, False])
def test_values_come_back(tmp_path: Path, serde: Any, memory: bool) -> None:
    """Values, writes and metadata go through the serializer and come back as they were."""
    saver: Any = InMemorySaver(serde=serde) if memory else SqliteSaver(tmp_path / "x.db", serde=serde)
    assert saver.serde is serde
    where = saver.put(config(), checkpoint(**VALUES), {"step": 1}, {})
    saver.put_writes(where, list(VALUES.items()), "task")
    found = saver.get_tuple(where)
    assert found.checkpoint["channel_values"] == VALUES
    assert found.pending_writes == [("task", name, value) for name, value in VALUES.items()]
    assert [each.metadata for each in saver.list(None, filter={"step": 1})] == [{"step": 1}]
    saver.close()


def test_content_is_stored_once_under_any_serializer(tmp_path: Path, serde: Any) -> None:
    """A growing list is not stored again, even where its bytes differ each time."""
    with SqliteSaver(tmp_path / "x.db", serde=serde, synchronous="NORMAL") as saver:
        where: Any = config()
        messages: list[Any] = []
        for n in range(60):
            messages = [*messages, {"id": n, "text": LONG * 2}]
            where = saver.put(where, checkpoint(messages=messages), {}, {})
        with closing(sqlite3.connect(tmp_path / "x.db")) as other:
            (size,) = other.execute("SELECT sum(length(data)) FROM perdure_value").fetchone()
    assert size < 2.5 * 60 * len(LONG) * 2


def test_nothing_of_an_encrypted_store_is_readable(tmp_path: Path) -> None:
    """Values of every size and metadata are encrypted in the file."""
    path = tmp_path / "x.db"
    with SqliteSaver(path, serde=EncryptedSerializer(Cipher())) as saver:
        where = saver.put(config(), checkpoint(a="secret", b=["secret" * 20]), {"note": "secret"}, {})
        saver.put_writes(where, [("a", "secret")], "task")
    assert b"secret" not in path.read_bytes()


@pytest.mark.parametrize("later", ["jsonplus", "pickle fallback", "encrypted"])
def test_a_store_may_change_its_serializer(tmp_path: Path, later: str) -> None:
    """What the default codec stored is read by the serializers around it, and gone on from."""
    path = tmp_path / "x.db"
    with SqliteSaver(path) as saver:
        where = saver.put(config(), checkpoint(**VALUES), {"step": 1}, {})
    with SqliteSaver(path, serde=SERIALIZERS[later]()) as saver:
        found = saver.get_tuple(where)
        assert found is not None
        assert found.checkpoint["channel_values"] == VALUES
        where = saver.put(where, checkpoint(**{**VALUES, "zero": 1}), {}, {})
        assert saver.get(where)["channel_values"] == {**VALUES, "zero": 1}  # type: ignore[index]


def test_the_default_reads_what_a_tagged_codec_wrote(tmp_path: Path) -> None:
    """A store goes back from pickle_fallback to the default where no pickle was needed."""
    path = tmp_path / "x.db"
    with SqliteSaver(path, serde=JsonPlusSerializer(pickle_fallback=True)) as saver:
        where = saver.put(config(), checkpoint(**VALUES), {}, {})
    with SqliteSaver(path) as saver:
        assert saver.get(where)["channel_values"] == VALUES  # type: ignore[index]


def test_a_tag_of_another_serializer_is_named(tmp_path: Path) -> None:
    """Reading without the serializer that wrote says which one is missing."""
    path = tmp_path / "x.db"
    with SqliteSaver(path, serde=Typed()) as saver:
        where = saver.put(config(), checkpoint(a=1), {}, {})
    with SqliteSaver(path) as saver, pytest.raises(NotImplementedError, match="'pickled'"):
        saver.get_tuple(where)


@pytest.mark.parametrize(
    "strict",
    [
        lambda: Codec(Registry(strict=True, base=default_registry)),
        lambda: JsonPlusSerializer(allowed_msgpack_modules=None),
        lambda: EncryptedSerializer(Cipher(), JsonPlusSerializer(allowed_msgpack_modules=None)),
    ],
)
def test_allowlist_is_extended_on_a_clone(strict: Callable[[], Any]) -> None:
    """`with_allowlist` gives a saver on the same threads that may build more types."""
    saver = InMemorySaver(serde=strict())
    extended = saver.with_allowlist([Thing])
    where = extended.put(config(), checkpoint(a=Thing("x")), {}, {})
    assert extended.get(where)["channel_values"] == {"a": Thing("x")}  # type: ignore[index]
    with pytest.raises(UnknownTypeError):
        saver.get_tuple(where)


def test_allowlist_of_nothing_is_the_saver_itself() -> None:
    """Where nothing changes no clone is made."""
    saver = InMemorySaver()
    assert saver.with_allowlist([Thing]) is saver
    strict = InMemorySaver(serde=Codec(Registry(strict=True, base=default_registry)))
    assert strict.with_allowlist([]) is strict


def test_an_object_that_is_no_serializer() -> None:
    """What cannot serialize is refused at once."""
    with pytest.raises(TypeError, match="serde is a object; give an object with dumps_typed"):
        InMemorySaver(serde=object())
