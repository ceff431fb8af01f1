"""Values of numpy and pydantic."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from typing import Any

import numpy
import pydantic
import pytest

from perdure.serde import Codec, Registry
from serde import models
from serde.samples import same

codec = Codec()


def back(value: Any) -> Any:
    return codec.decode(codec.encode(value))


ARRAYS = [
    numpy.arange(6).reshape(2, 3),
    numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)),
    numpy.arange(10)[::3],
    numpy.array(3),
    numpy.zeros((0, 4)),
    numpy.array([True, False]),
    numpy.array(["a", "bcd"]),
    numpy.array([b"a\0", b"b"]),
    numpy.array([(1, 2.5)], dtype=[("a", ">i4"), ("b", "f8", (2,))]),
    numpy.array(["2024-01-01", "NaT"], dtype="datetime64[ns]"),
    numpy.array([1, 2], dtype="timedelta64[s]"),
    numpy.array([1 + 2j], dtype=numpy.complex64),
    numpy.array([1, 2], dtype=">u2"),
    numpy.array([None, (1, 2), [3], {"a": {1}}], dtype=object),
    numpy.array([[1, "a"], [None, 2.5]], dtype=object, order="F"),
    numpy.array(None, dtype=object),
]
SCALARS = [
    numpy.float64(1.5),
    numpy.float32("nan"),
    numpy.int8(-3),
    numpy.uint64(2**64 - 1),
    numpy.bool_(True),
    numpy.complex128(1 + 2j),
    numpy.str_("a\0"),
    numpy.bytes_(b"a\0"),
    numpy.datetime64("2024-01-01T00:00:00.123"),
    numpy.timedelta64(5, "h"),
    numpy.longdouble(1) / 3,
    numpy.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")])[0],
]


@pytest.mark.parametrize("value", [*ARRAYS, *SCALARS], ids=lambda value: str(value.dtype))
def test_numpy_comes_back_as_it_was(value: Any) -> None:
    """Type of the items, shape and content are those that went in, also inside other values."""
    assert same(back(value), value)
    assert same(back({"a": [(value,)]}), {"a": [(value,)]})


@pytest.mark.parametrize("value", ARRAYS, ids=lambda value: str(value.dtype))
def test_an_array_can_be_written_to(value: Any) -> None:
    """What was read is not locked, and lies in memory in the order it had."""
    read = back(value)
    assert read.flags.writeable
    assert (read.flags.f_contiguous, read.flags.c_contiguous) == (
        value.flags.f_contiguous or value.ndim == 1,
        value.flags.c_contiguous or value.ndim == 1,
    )


def test_numpy_scalars_are_keys() -> None:
    """A dict keeps keys of numpy's types."""
    value = {numpy.int64(1): "a", numpy.str_("b"): 2}
    read = back(value)
    assert read == value
    assert [type(key) for key in read] == [numpy.int64, numpy.str_]


def test_a_dtype_comes_back() -> None:
    """A description of items is a value too."""
    dtype = numpy.dtype([("a", "<i4"), ("b", "f8", (2,))])
    assert back([dtype, numpy.dtype("f4")]) == [dtype, numpy.dtype("f4")]


def test_a_model_comes_back_without_validation() -> None:
    """Fields, which of them were set, extra and private attributes are those that went in."""
    model = models.User(name="a", tags={"x", "y"}, inner=models.Inner(at=(1, 2)), extra_one=b"1")
    model._seen = [1]
    model.age = "not a number"  # type: ignore[assignment]
    models.VALIDATED.clear()
    read = back([model])[0]
    assert (read, read.model_fields_set, read.model_extra) == (
        model,
        model.model_fields_set,
        model.model_extra,
    )
    assert (read._seen, type(read.inner), read.inner.at) == ([1], models.Inner, (1, 2))
    assert models.VALIDATED == []


def test_fields_of_pydantic_types_come_back() -> None:
    """Secrets, addresses and moments with pydantic's time zone are themselves again."""
    model = models.Account.model_validate_json(
        '{"secret": "s", "key": "k", "page": "http://a.b/c?d=e", "since": "2024-01-01T00:00:00+02:00"}'
    )
    read = back(model)
    assert read == model
    assert read.secret.get_secret_value() == "s"
    assert [type(value) for _, value in read] == [type(value) for _, value in model]
    assert read.since.tzinfo == model.since.tzinfo == dt.timezone(dt.timedelta(hours=2))


def test_a_root_model_and_a_generic_one_come_back() -> None:
    """Models of every make are data."""
    values = [models.Names(["a"]), models.IntPage(items=[1]), models.Page[str](items=["x"])]
    read = back(values)
    assert read == values
    assert [type(value) for value in read] == [type(value) for value in values]


def test_a_pydantic_dataclass_comes_back() -> None:
    """It is a dataclass like any other."""
    assert back(models.Shape(sides=3)) == models.Shape(sides=3)


def test_a_model_hidden_in_a_strict_registry_is_refused() -> None:
    """Only what was registered is stored there."""
    registry = Registry(strict=True)
    with pytest.raises(TypeError, match="only registered classes may be stored here"):
        Codec(registry).encode(models.Names(["a"]))
    registry.register(models.Names)
    strict = Codec(registry)
    assert strict.decode(strict.encode(models.Names(["a"]))) == models.Names(["a"])


def test_a_field_that_a_model_got_later_has_its_default() -> None:
    """Old bytes are read by the class as it is now; defaults that need a call stay away."""
    old = Codec()
    data = old.encode(models.Before(x=1))
    registry = Registry()
    registry.register(models.After, aliases=["serde.models:Before"])
    read = Codec(registry).decode(data)
    assert (type(read), read.x, read.y, read.z) == (models.After, 1, [0], {})
    assert "when" not in read.__dict__


PROBE = """
import sys
from perdure.serde import Codec, digest
codec = Codec()
digest(((1, "a"), {}))
codec.decode(codec.encode([1, (2, {3})]))
heavy = {"numpy", "pydantic", "langchain_core", "ipaddress"}
print(sorted(heavy & sys.modules.keys()))
"""


def test_nothing_heavy_is_imported_for_plain_values() -> None:
    """Guests and rarer kinds cost nothing before one of them is met."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, env={"PYTHONPATH": "src"}
    )
    assert done.stdout.strip() == "[]"


def test_numpy_is_imported_when_bytes_hold_an_array() -> None:
    """The reader of an array need not have thought of numpy."""
    code = f"from perdure.serde import Codec; print(Codec().decode({codec.encode(numpy.arange(3))!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": "src"}
    )
    assert done.stdout.strip() == "[0 1 2]"


def test_pydantic_is_present() -> None:
    """The models above are pydantic's second kind."""
    assert pydantic.VERSION.startswith("2.")


def rejected(**given: Any) -> pydantic.ValidationError:
    with pytest.raises(pydantic.ValidationError) as caught:
        models.Strict(**given)
    return caught.value


@pytest.mark.parametrize(
    "given",
    [{}, {"x": "a", "y": [1, "b"]}, {"x": -1}, {"x": 13}, {"x": 14}, {"x": object()}],
    ids=["missing", "nested", "limit", "value error", "custom error", "object"],
)
def test_a_validation_error_comes_back(given: dict[str, Any]) -> None:
    """Its class, its text and what it says about each field are as they were."""
    error = rejected(**given)
    error.add_note("in step 3")
    read = back(error)
    assert type(read) is pydantic.ValidationError
    assert read.__notes__ == ["in step 3"]
    if "object" not in str(error):
        assert str(read) == str(error)
    assert [line["loc"] for line in read.errors()] == [line["loc"] for line in error.errors()]
    assert [line["msg"] for line in read.errors()] == [line["msg"] for line in error.errors()]
