"""Bytes that were cut, changed or forged give a typed error; they never run anything."""

from __future__ import annotations

import sys
from typing import Any

import ormsgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.errors import PerdureError, UnknownTypeError
from perdure.serde import Codec, CorruptBytesError, Registry, codes
from serde import samples

codec = Codec()
REFERENCE = ormsgpack.Ext(codes.TUPLE, b"\0\0\0\1")


def forged(code: int, content: Any) -> bytes:
    """Bytes that claim to be of a kind."""
    return ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(content)))


@pytest.mark.parametrize("value", samples.VALUES, ids=samples.sample_id)
def test_cut_bytes_are_refused(value: Any) -> None:
    """Not one byte may be missing at the end."""
    data = codec.encode([value])
    for end in range(0, len(data), max(1, len(data) // 20)):
        with pytest.raises((CorruptBytesError, UnknownTypeError)):
            codec.decode(data[:end])


@pytest.fixture(scope="module")
def audited() -> list[str]:
    """Notes what the interpreter is asked to do, from here on."""
    seen: list[str] = []
    sys.addaudithook(lambda event, args: seen.append(event) if runs_code(event, args) else None)
    return seen


def runs_code(event: str, args: tuple[Any, ...]) -> bool:
    if event == "exec":  # a time zone is looked for in the packages of tzdata, which are empty
        return "tzdata" not in args[0].co_filename
    return event in ("compile", "os.system", "subprocess.Popen", "pickle.find_class")


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(samples.ANYTHING, st.data())
def test_changed_bytes_run_nothing(audited: list[str], value: Any, data: st.DataObject) -> None:
    """Whatever bytes are changed, the answer is a value or an error of ours."""
    stored = bytearray(codec.encode([value, samples.Point(1), ValueError(2)]))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(stored) - 1))
        stored[place] = data.draw(st.integers(0, 255))
    samples.Ran.notes.clear()
    audited.clear()
    try:
        codec.decode(bytes(stored))
    except PerdureError:
        pass
    assert (audited, samples.Ran.notes) == ([], [])


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_random_bytes_run_nothing(data: bytes) -> None:
    """Bytes out of nowhere are a value or an error of ours."""
    for stored in (data, b"\xc1\x01" + data, ormsgpack.packb(ormsgpack.Ext(codes.OBJECT, data))):
        try:
            codec.decode(stored)
        except PerdureError:
            continue


@pytest.mark.parametrize(
    ("code", "content"),
    [
        (codes.OBJECT, ["subprocess:Popen", {"args": ["true"]}]),
        (codes.OBJECT, ["builtins:eval", {}]),
        (codes.ENUM, ["os:system", "true"]),
        (codes.BUILTIN, ["subprocess:Popen", "list", [], {}]),
        (codes.NAMED_TUPLE, ["serde.samples:Point", [1], {}]),
        (codes.MODEL, ["serde.samples:Point", {}, [], None, None]),
        (codes.REGISTERED, ["serde.samples:Point", {}]),
        (codes.TYPE, ["subprocess:Popen"]),
        (codes.TYPE, ["serde.samples:Plain"]),
        (codes.OBJECT, ["a_module_nobody_imported:Thing", {}]),
        (codes.OBJECT, ["serde.samples:Point.__init__", {}]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_class_that_is_no_data_is_not_built(code: int, content: Any) -> None:
    """Naming a class is not enough: it must be data, of that kind, and imported already."""
    with pytest.raises(UnknownTypeError):
        codec.decode(forged(code, content))


def test_no_module_is_imported_by_name() -> None:
    """A module that is installed and not imported stays so."""
    sys.modules.pop("this", None)
    with pytest.raises(UnknownTypeError, match="import its module, or register the class"):
        codec.decode(forged(codes.OBJECT, ["this:Zen", {}]))
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\xc1\x02\x91\xc4\x01\x90",  # a later version
        b"\xc1\x01\x90",  # no part
        b"\xc1\x01\x91\x01",  # a part that is no bytes
        b"\xc1\x01" + ormsgpack.packb([b"\x01", b"\x02"]),  # a part that belongs to nothing
        ormsgpack.packb(REFERENCE),  # a part that is not there
        b"\xc1\x01" + ormsgpack.packb([ormsgpack.packb(ormsgpack.Ext(codes.TUPLE, b"\0\0\0\0"))]),
        b"\xc1\x01"
        + ormsgpack.packb([ormsgpack.packb([ormsgpack.Ext(codes.TUPLE, b"\0\0\0\1")] * 2), b"\x90"]),
        forged(codes.PAIRS, [1, 2, 3]),
        forged(codes.PAIRS, [1, 2, 1, 3]),
        forged(codes.SET, [1, 1]),
        forged(codes.ORDERED_DICT, [[], 1]),
        forged(codes.DEQUE, ["x", 1]),
        forged(codes.PATTERN, ["(", 32]),
        forged(codes.PATTERN, ["a", 128]),
        forged(codes.FRACTION, [1, 0]),
        ormsgpack.packb(ormsgpack.Ext(codes.ZONE_INFO, b"../etc/passwd")),
        ormsgpack.packb(ormsgpack.Ext(codes.ZONE_INFO, b"Nowhere/Town")),
        forged(codes.DEFAULT_DICT, ["list"]),
        forged(codes.ARRAY, ["i", 4, "little", b"\0"]),
        forged(codes.NUMPY_ARRAY, ["<i4", [5], "C", b"\0"]),
        forged(codes.NUMPY_ARRAY, ["|O", [1], "C", b"\0" * 8]),
        forged(codes.ENUM, ["serde.samples:Colour", 77]),
        forged(codes.NAMED_TUPLE, ["serde.samples:Pair", [1, 2, 3], {}]),
        forged(codes.OBJECT, ["serde.samples:Frozen", {"other": 1}]),
        forged(codes.BUILTIN, ["serde.samples:Rows", "dict", [], {}]),
        forged(codes.OBJECT, [5, {}]),
        forged(5, ["module", "name", 1]),  # what others use for constructors
        forged(120, []),
        b"\x91" * 5000 + b"\x01",
    ],
    ids=range(31),
)
def test_bytes_that_are_not_ours_are_refused(data: bytes) -> None:
    """A typed error, whatever is wrong with them."""
    with pytest.raises(CorruptBytesError):
        codec.decode(data)


def test_corrupt_bytes_are_a_value_error() -> None:
    """Who catches ValueError catches it."""
    assert issubclass(CorruptBytesError, ValueError)


def test_bytes_within_bytes_have_an_end() -> None:
    """Errors that hold errors without end, which only forged bytes can, are refused."""
    data = codec.encode(1)
    for _ in range(500):
        data = forged(codes.ERROR, ["builtins:ValueError", [data], {}, []])
    with pytest.raises(CorruptBytesError):
        codec.decode(data)


def test_an_error_of_a_registered_decoder_passes_unchanged() -> None:
    """Its type and text are the user's; a note says what was read."""

    def decode(stored: Any) -> samples.Plain:
        raise LookupError("gone")

    registry = Registry()
    registry.register(samples.Plain, lambda value: 1, decode, name="plain")
    ours = Codec(registry)
    with pytest.raises(LookupError, match="gone") as caught:
        ours.decode(ours.encode([samples.Plain()]))
    assert caught.value.__notes__ == ["while reading a stored plain"]
