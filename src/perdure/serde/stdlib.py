"""Dates, numbers, paths and other values of the standard library.

Imported when the first such value is met: the modules behind them cost time to import.
"""

from __future__ import annotations

import array
import datetime as dt
import ipaddress
import pathlib
import re
import sys
import time
import uuid
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from struct import Struct
from typing import Any

from ormsgpack import Ext

from perdure.serde import codes
from perdure.serde.containers import container
from perdure.serde.encode import Encoding
from perdure.serde.faults import Refusal
from perdure.serde.tables import LOADS, PUTS


def leaf(code: int, cls: type, dump: Callable[[Any], bytes], load: Callable[[bytes], Any]) -> None:
    """Adds a kind that is told fully by a few bytes."""

    def put(run: Encoding, value: Any) -> Ext:
        return Ext(code, dump(value))

    PUTS[cls] = put
    LOADS[code] = load


# -- time ------------------------------------------------------------------------------------


def _put_moment(leaf_code: int, zoned_code: int) -> Callable[[Encoding, Any], Ext]:
    def put(run: Encoding, value: Any) -> Ext:
        zone = value.tzinfo
        if zone is None or zone is dt.UTC:
            return Ext(leaf_code, (value.isoformat() + "f" * value.fold).encode())
        return run.part(zoned_code, [value.replace(tzinfo=None).isoformat(), value.fold, zone])

    return put


def _load_moment(read: Callable[[str], Any]) -> Callable[[bytes], Any]:
    def load(payload: bytes) -> Any:
        text = payload.decode("ascii")
        return read(text[:-1]).replace(fold=1) if text.endswith("f") else read(text)

    return load


def _join_moment(read: Callable[[str], Any]) -> Callable[[list[Any]], Any]:
    def join(content: list[Any]) -> Any:
        text, fold, zone = content
        return read(text).replace(fold=fold, tzinfo=zone)

    return join


container(codes.ZONED_DATETIME, dt.datetime, list, _join_moment(dt.datetime.fromisoformat))
container(codes.ZONED_TIME, dt.time, list, _join_moment(dt.time.fromisoformat))
PUTS[dt.datetime] = _put_moment(codes.DATETIME, codes.ZONED_DATETIME)
PUTS[dt.time] = _put_moment(codes.TIME, codes.ZONED_TIME)
LOADS[codes.DATETIME] = _load_moment(dt.datetime.fromisoformat)
LOADS[codes.TIME] = _load_moment(dt.time.fromisoformat)

leaf(
    codes.DATE,
    dt.date,
    lambda value: value.isoformat().encode(),
    lambda payload: dt.date.fromisoformat(payload.decode("ascii")),
)

_SPAN = Struct("<iii")
leaf(
    codes.TIMEDELTA,
    dt.timedelta,
    lambda value: _SPAN.pack(value.days, value.seconds, value.microseconds),
    lambda payload: dt.timedelta(*_SPAN.unpack(payload)),
)


def _put_timezone(run: Encoding, value: dt.timezone) -> Ext:
    if value is dt.UTC:
        return Ext(codes.UTC, b"")
    offset_and_name: Any = value.__getinitargs__()  # type: ignore[attr-defined]
    return run.part(codes.TIMEZONE, list(offset_and_name))


container(codes.TIMEZONE, dt.timezone, list, lambda content: dt.timezone(*content))
PUTS[dt.timezone] = _put_timezone
LOADS[codes.UTC] = lambda payload: dt.UTC


def _zone_key(value: zoneinfo.ZoneInfo) -> bytes:
    if value.key is None:
        raise Refusal("it was made from a file and has no key")
    return value.key.encode()


_ZONE_KEY = re.compile(r"[\w+-]+(/[\w+-]+)*", re.ASCII)


def _zone(payload: bytes) -> zoneinfo.ZoneInfo:
    key = payload.decode("ascii")
    if not _ZONE_KEY.fullmatch(key):  # keys become paths of files, and of packages below `tzdata`
        raise ValueError(f"{key!r} is no key of a time zone")
    return zoneinfo.ZoneInfo(key)


leaf(codes.ZONE_INFO, zoneinfo.ZoneInfo, _zone_key, _zone)

container(
    codes.STRUCT_TIME,
    time.struct_time,
    lambda value: [*value, value.tm_zone, value.tm_gmtoff],
    lambda content: time.struct_time((*content[:9], content[9], content[10])),
)

# -- numbers and ids -------------------------------------------------------------------------

leaf(
    codes.DECIMAL,
    Decimal,
    lambda value: str(value).encode(),
    lambda payload: Decimal(payload.decode("ascii")),
)
container(
    codes.FRACTION,
    Fraction,
    lambda value: [value.numerator, value.denominator],
    lambda content: Fraction(*content),
)
leaf(codes.UUID, uuid.UUID, lambda value: value.bytes, lambda payload: uuid.UUID(bytes=payload))

# -- paths, addresses, patterns ----------------------------------------------------------------


def lettered(code: int, classes: dict[str, type]) -> None:
    """Adds a kind for classes that are told apart by a letter and made from a text."""
    letters = {cls: letter for letter, cls in classes.items()}

    def put(run: Encoding, value: Any) -> Ext:
        return Ext(code, (letters[type(value)] + str(value)).encode("utf-8", "surrogatepass"))

    def load(payload: bytes) -> Any:
        text = payload.decode("utf-8", "surrogatepass")
        return classes[text[0]](text[1:])

    for cls in letters:
        PUTS[cls] = put
    LOADS[code] = load


lettered(
    codes.PATH,
    {
        "p": pathlib.PosixPath,
        "w": pathlib.WindowsPath,
        "P": pathlib.PurePosixPath,
        "W": pathlib.PureWindowsPath,
    },
)
lettered(
    codes.IP_ADDRESS,
    {
        "a": ipaddress.IPv4Address,
        "i": ipaddress.IPv4Interface,
        "n": ipaddress.IPv4Network,
        "A": ipaddress.IPv6Address,
        "I": ipaddress.IPv6Interface,
        "N": ipaddress.IPv6Network,
    },
)


def _pattern(content: list[Any]) -> re.Pattern[Any]:
    text, flags = content
    if flags & re.DEBUG:  # prints when compiled
        raise ValueError("a pattern asks for debugging output")
    return re.compile(text, flags)


container(
    codes.PATTERN,
    re.Pattern,
    lambda value: [value.pattern, value.flags & ~re.DEBUG.value],
    _pattern,
)

# -- buffers ---------------------------------------------------------------------------------


def _array(content: list[Any]) -> array.array[Any]:
    typecode, itemsize, order, data = content
    made = array.array(typecode)
    if made.itemsize != itemsize:
        raise ValueError(f"items of type {typecode!r} have another size on this machine")
    made.frombytes(data)
    if order != sys.byteorder:
        made.byteswap()
    return made


container(
    codes.ARRAY,
    array.array,
    lambda value: [value.typecode, value.itemsize, sys.byteorder, value.tobytes()],
    _array,
)


def _split_view(value: memoryview) -> list[Any]:
    content = [value.tobytes(), value.format, list(value.shape or ()), value.readonly]
    try:
        _view(content)
    except (TypeError, ValueError) as error:
        raise Refusal(f"{error}; store its bytes instead") from None
    return content


def _view(content: list[Any]) -> memoryview[Any]:
    data, form, shape, readonly = content
    view: Any = memoryview(data if readonly else bytearray(data))
    if form == "B" and len(shape) == 1:
        return view  # type: ignore[no-any-return]
    return view.cast(form, shape)  # type: ignore[no-any-return]


container(codes.MEMORYVIEW, memoryview, _split_view, _view)
