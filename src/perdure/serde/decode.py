"""Bytes to values. See `encode` for the format.

Parts are read from the last to the first: a part refers to later ones only, so that whatever it
holds is there. Each part is used exactly once, hence bytes can make no value that contains
itself or grows by sharing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from ormsgpack import unpackb

from perdure.errors import PerdureError
from perdure.serde.encode import MARK, MAX_LEVEL
from perdure.serde.faults import CorruptBytesError, ForeignError
from perdure.serde.registry import Registry
from perdure.serde.tables import JOINS, LOADS, load_standard

_USED: Final = object()


class Decoding:
    """Bytes on their way to a value."""

    level = 0
    _error: BaseException | None = None
    _index = 0
    _values: Sequence[Any] = ()

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.classes: dict[str, type] = {}
        """By name: data classes that were found already."""

    def document(self, data: bytes) -> Any:
        """The value.

        Raises:
            CorruptBytesError: These are not our bytes, or not all of them.
            UnknownTypeError: They name a type that may not be built.
        """
        try:
            return self._parts(data[2:]) if data[:2] == MARK else self._unpack(data)
        except ForeignError as failed:
            raise failed.error from None
        except PerdureError:
            raise
        except Exception as error:
            raise CorruptBytesError(
                f"stored bytes cannot be read: {error}; were they cut or changed?"
            ) from error

    def inner(self, data: bytes) -> Any:
        """The value of bytes that lie inside these, made by `Encoding.inner`."""
        if self.level >= MAX_LEVEL:
            raise ValueError("there are too many bytes within bytes")
        inner = Decoding(self.registry)
        inner.level = self.level + 1
        return inner.document(data)

    def _parts(self, data: bytes) -> Any:
        parts = unpackb(data)
        if type(parts) is not list or not parts or any(type(part) is not bytes for part in parts):
            raise ValueError("the parts are not in order")
        values: list[Any] = [None] * len(parts)
        self._values = values
        for self._index in range(len(parts) - 1, -1, -1):
            values[self._index] = self._unpack(parts[self._index])
        if any(value is not _USED for value in values[1:]):
            raise ValueError("there are parts that belong to nothing")
        return values[0]

    def _unpack(self, data: bytes) -> Any:
        try:
            return unpackb(data, ext_hook=self._build)
        except ValueError:
            if self._error is not None:
                raise self._error from None
            raise

    def _build(self, code: int, payload: bytes) -> Any:
        try:
            load = LOADS.get(code)
            if load is not None:
                return load(payload)
            join = JOINS.get(code)
            if join is not None:
                return join(self, self._take(payload))
            return self._build_standard(code, payload)
        except BaseException as error:
            # msgpack turns every error of its hook into a ValueError without a cause.
            self._error = error
            raise

    def _build_standard(self, code: int, payload: bytes) -> Any:
        load_standard()
        if code not in LOADS and code not in JOINS:
            raise ValueError(f"the kind {code} is not known")
        return self._build(code, payload)

    def _take(self, payload: bytes) -> Any:
        if payload[0] >= 0x80:  # a packed list or dict; numbers of parts begin lower
            return unpackb(payload)
        index = int.from_bytes(payload, "big")
        if not self._index < index < len(self._values):
            raise ValueError("a part refers to one that is not there")
        value = self._values[index]
        if value is _USED:
            raise ValueError("a part is referred to twice")
        cast("list[Any]", self._values)[index] = _USED
        return value
