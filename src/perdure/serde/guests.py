"""Values of other libraries: numpy, and what pydantic's models hold.

Nothing here is imported before such a value is met; their modules are named by us, not by bytes.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from ormsgpack import Ext

from perdure.errors import RecordedError
from perdure.serde import codes
from perdure.serde.decode import Decoding
from perdure.serde.encode import Encoding
from perdure.serde.failures import kept
from perdure.serde.faults import Refusal, unknown_type
from perdure.serde.registry import Registry
from perdure.serde.tables import JOINS, Put


def _guest(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise unknown_type(f"of {module}", "is not installed here; install it to read them") from None


# -- numpy -----------------------------------------------------------------------------------


def numpy_value(registry: Registry, cls: type) -> Put | None:
    """How numpy's arrays and scalars are tagged."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not hasattr(numpy, "ndarray"):
        return None
    if cls is numpy.ndarray:
        return _put_array
    if cls is numpy.str_ or cls is numpy.bytes_:
        return _put_text
    if issubclass(cls, numpy.generic):
        return _put_scalar
    return _put_dtype if issubclass(cls, numpy.dtype) else None


def _put_array(run: Encoding, value: Any) -> Ext:
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    shape = list(value.shape)
    if value.dtype == object:
        return run.part(codes.NUMPY_OBJECTS, [shape, order, value.ravel(order="C").tolist()])
    return run.part(codes.NUMPY_ARRAY, [_described(value.dtype), shape, order, value.tobytes(order)])


def _put_scalar(run: Encoding, value: Any) -> Ext:
    return run.part(codes.NUMPY_SCALAR, [_described(value.dtype), value.tobytes()])


def _put_text(run: Encoding, value: Any) -> Ext:
    # As an array, they would lose NULs at their end.
    plain = str.__str__(value) if isinstance(value, str) else bytes(memoryview(value))
    return run.part(codes.NUMPY_TEXT, [plain])


def _put_dtype(run: Encoding, value: Any) -> Ext:
    return run.part(codes.GUEST, ["numpy.dtype", _described(value)])


def _described(dtype: Any) -> Any:
    if dtype.hasobject or dtype.kind == "T":
        raise Refusal("its items are Python objects")
    described = _guest("numpy.lib.format").dtype_to_descr(dtype)
    if _dtype(described) != dtype:
        raise Refusal(f"its dtype {dtype} cannot be told in words")
    return described


def _dtype(described: Any) -> Any:
    return _guest("numpy.lib.format").descr_to_dtype(described)


def _join_array(run: Decoding, content: list[Any]) -> Any:
    described, shape, order, data = content
    numpy = _guest("numpy")
    dtype = _dtype(described)
    items = len(data) // dtype.itemsize if dtype.itemsize else 0
    made = numpy.ndarray(tuple(shape), dtype, bytearray(data), order=order)
    if dtype.hasobject or (dtype.itemsize and made.size != items) or items * dtype.itemsize != len(data):
        raise ValueError("an array has another size than its shape says")
    return made


def _join_objects(run: Decoding, content: list[Any]) -> Any:
    shape, order, items = content
    numpy = _guest("numpy")
    made = numpy.empty(len(items), dtype=object)
    made[:] = items
    return numpy.array(made.reshape(shape), dtype=object, order=order)


def _join_scalar(run: Decoding, content: list[Any]) -> Any:
    described, data = content
    return _join_array(run, [described, [], "C", data])[()]


def _join_text(run: Decoding, content: list[Any]) -> Any:
    numpy = _guest("numpy")
    (plain,) = content
    return numpy.str_(plain) if type(plain) is str else numpy.bytes_(plain)


JOINS[codes.NUMPY_ARRAY] = _join_array
JOINS[codes.NUMPY_OBJECTS] = _join_objects
JOINS[codes.NUMPY_SCALAR] = _join_scalar
JOINS[codes.NUMPY_TEXT] = _join_text

# -- pydantic --------------------------------------------------------------------------------

_CORE = "pydantic_core"


def pydantic_value(registry: Registry, cls: type) -> Put | None:
    """How values of pydantic's own, as they stand in models, are tagged."""
    core = sys.modules.get(_CORE)
    if core is None:
        return None
    if cls is core.TzInfo:
        return lambda run, value: run.part(codes.GUEST, ["tz", value.__reduce__()[1][0]])
    if cls is core.ValidationError:
        return _put_validation_error
    if cls is core.Url or cls is core.MultiHostUrl:
        return lambda run, value: run.part(codes.GUEST, [cls.__name__, str(value)])
    return None


def _put_validation_error(run: Encoding, error: Any) -> Ext:
    # Like other errors, but it has no arguments and is made by its library only.
    lines = [
        [
            line["type"],
            line["msg"],
            kept(run, line["loc"]),
            kept(run, line["input"]),
            kept(run, line.get("ctx")),
        ]
        for line in error.errors(include_url=False)
    ]
    attributes = kept(run, dict(error.__dict__))
    return run.part(codes.GUEST, ["ValidationError", [error.title, lines, attributes, str(error)]])


def _validation_error(run: Decoding, told: list[Any]) -> Exception:
    core = _guest(_CORE)
    title, lines, attributes, text = told
    made: Exception
    try:
        made = core.ValidationError.from_exception_data(title, [_line(core, run, line) for line in lines])
    except (KeyError, TypeError, ValueError):  # of another version
        made = RecordedError("pydantic_core.ValidationError", (text,))
    made.__dict__.update(run.inner(attributes))
    return made


def _line(core: Any, run: Decoding, line: list[Any]) -> dict[str, Any]:
    kind, message, *inner = line
    loc, given, context = map(run.inner, inner)
    error: Any = kind
    try:
        core.PydanticKnownError(kind, context)
    except (KeyError, TypeError, ValueError):
        error = core.PydanticCustomError(kind, message, context)
    told = {"type": error, "loc": loc, "input": given}
    return told if context is None or error is not kind else {**told, "ctx": context}


def _join_guest(run: Decoding, content: list[Any]) -> Any:
    kind, told = content
    if kind == "ValidationError":
        return _validation_error(run, told)
    if kind == "numpy.dtype":
        return _dtype(told)
    core = _guest(_CORE)
    return {"tz": core.TzInfo, "Url": core.Url, "MultiHostUrl": core.MultiHostUrl}[kind](told)


JOINS[codes.GUEST] = _join_guest
