"""Classes and values to store, and how to tell that they came back."""

from __future__ import annotations

import array
import dataclasses
import datetime as dt
import enum
import ipaddress
import math
import pathlib
import re
import sys
import time
import types
import uuid
import zoneinfo
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque
from decimal import Decimal
from fractions import Fraction
from typing import Any, Generic, NamedTuple, TypeVar

from hypothesis import strategies as st

from perdure.serde.shapes import attributes_of

T = TypeVar("T")


class Colour(enum.Enum):
    RED = 1
    GREEN = "green"
    ODD = (1, [2])
    NAN = float("nan")


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Rights(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 4


class Word(str, enum.Enum):  # noqa: UP042  (both ways of writing it are met)
    YES = "yes"


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 0

    def __post_init__(self) -> None:
        Ran.here("Point.__post_init__")


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    name: Any
    secret: Any = dataclasses.field(init=False, default=None)


@dataclasses.dataclass
class Box(Generic[T]):
    content: T


class Ran:
    """Notes that code ran which must not."""

    notes: list[str] = []

    @classmethod
    def here(cls, what: str) -> None:
        cls.notes.append(what)


class Pair(NamedTuple):
    left: Any
    right: Any = "none"


class Outer:
    @dataclasses.dataclass
    class Inner:
        value: Any


class Name(str):
    __slots__ = ()


class Count(int):
    pass


class Rows(list[Any]):
    pass


class Table(dict[Any, Any]):
    def __setitem__(self, key: Any, value: Any) -> None:
        Ran.here("Table.__setitem__")
        super().__setitem__(key, value)


class Groups(defaultdict[Any, Any]):
    pass


class Ordered(OrderedDict[Any, Any]):
    pass


class Plain:
    """Not known to be data: may not be stored."""


class Refused(Exception):
    def __init__(self, reason: str, *, code: int) -> None:
        super().__init__(reason)
        Ran.here("Refused.__init__")
        self.code = code


class DiskError(OSError):
    pass


MOMENT = dt.datetime(2024, 10, 27, 2, 30, 0, 123456)
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


VALUES: list[Any] = [
    # numbers
    *(None, True, False, 0, -1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**600, -(10**600)),
    *(0.5, -0.0, math.nan, math.inf, -math.inf, 1 + 2j, complex(math.nan, -0.0)),
    *(Decimal("1.50"), Decimal("NaN"), Decimal("sNaN7"), Decimal("-Infinity"), Decimal("1E+999")),
    *(Fraction(1, 3), Fraction(-(2**70), 3), range(3), range(9, -(2**70), -2), slice(1, None, 2)),
    # text and bytes
    *("", "a\0b", "é漢🎈", "\ud800", "a\udcffb", b"", b"\0\xff", bytearray(b"ab"), b"\xc1\x01"),
    *([bytearray(b"")], {"a": [bytearray(b"x"), b"x"]}, {"\ud800": {"\udfff": 1}}),
    # containers
    *([], (), {}, set(), frozenset(), [()], ((),), [[[]]], {"a": {"b": [1, (2, {"c": [3]})]}}),
    *({(1, 2), (3, (4,))}, {frozenset({1}), "a", None}, {1, 2.5, "x", b"y", (1,)}),
    *({1: "a", "1": "b", None: 0, (1, 2): [3], b"k": 1, 2.5: 2, False: 3}, {frozenset({1}): {2}}),
    *({dt.date(2024, 1, 2): 1, MOMENT: 2}, {Colour.RED: 1, Word.YES: 2}, {Frozen(1): 2, 2**80: 3}),
    *(OrderedDict([("b", 1), (1, 2)]), defaultdict(list, {"a": [1]}), defaultdict(None, {1: 2})),
    *(Counter("abca"), deque([1, (2,)], maxlen=3), deque(), ChainMap({"a": 1}, {2: 3})),
    *(types.SimpleNamespace(a=(1,), b=None), types.MappingProxyType({"a": (1,), 2: 3})),
    *(..., NotImplemented, [..., (NotImplemented,)]),
    # time
    *(MOMENT, MOMENT.replace(fold=1), MOMENT.replace(tzinfo=dt.UTC), MOMENT.replace(year=1)),
    *(MOMENT.replace(tzinfo=BERLIN), MOMENT.replace(tzinfo=BERLIN, fold=1), MOMENT.replace(microsecond=0)),
    *(MOMENT.replace(tzinfo=dt.timezone(dt.timedelta(hours=-3, minutes=-30), "NST")), MOMENT.date()),
    *(MOMENT.time(), MOMENT.time().replace(fold=1, tzinfo=dt.UTC), MOMENT.time().replace(tzinfo=BERLIN)),
    *(dt.timedelta(-1, 5, 6), dt.timedelta.max, dt.timedelta.min, dt.UTC, dt.timezone(dt.timedelta(0), "Z")),
    *(dt.timezone(dt.timedelta(hours=5)), BERLIN, time.gmtime(0), time.localtime(0)),
    # the rest of the standard library
    *(uuid.UUID(int=5), uuid.UUID(int=2**128 - 1), pathlib.Path("a/b"), pathlib.PurePosixPath("/x/\udcff")),
    *(
        pathlib.PureWindowsPath("c:\\x"),
        re.compile("a+", re.I | re.M),
        re.compile(b"\xff"),
        re.compile("(?x) a"),
    ),
    *(
        ipaddress.ip_address("1.2.3.4"),
        ipaddress.ip_network("10.0.0.0/8"),
        ipaddress.ip_interface("1.2.3.4/8"),
    ),
    *(ipaddress.ip_address("::1"), ipaddress.ip_network("fe80::/10")),
    *(array.array("d", [1, 2.5]), array.array("i"), UserDict({"a": 1})),
    *(memoryview(b"abc"), memoryview(bytearray(b"abc")), memoryview(array.array("i", [1, 2]))),
    # classes of the program
    *(*Colour, Level.HIGH, Word.YES, Rights.READ, Rights.READ | Rights.RUN, Rights(0)),
    *(Point(1, (2,)), Frozen("a"), Outer.Inner([1]), Box({1}), Pair(1), Pair((1,), Pair(2, 3))),
    *(Name("n"), Count(7), Count(2**70), Rows([1, (2,)]), Table({1: 2, "a": {3}}), Groups(list, {"a": [1]})),
    *(Ordered(b=1, a=2), {Name("k"): Name("v")}, [Point(Point(Point(1)))]),
    # types
    *(int, dict, type(None), type, Point, Colour, Decimal, dt.datetime, [str, (list,)], ValueError),
]


def sample_id(value: Any) -> str:
    return type(value).__name__


# -- equal in value and in type, all the way down ----------------------------------------------


def same(a: Any, b: Any) -> bool:
    """Whether two values are alike down to the types, signs and order of what they hold."""
    if type(a) is not type(b):
        return False
    if isinstance(a, BaseException):
        return same(_told(a), _told(b))
    if isinstance(a, float | complex | Decimal):
        return repr(a) == repr(b)
    if isinstance(a, set | frozenset):
        return len(a) == len(b) and _paired(_sorted(a), _sorted(b))
    if isinstance(a, enum.Enum | type):
        return a is b
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(a, numpy.ndarray | numpy.generic):
        return _same_array(a, b)
    return same_content(a, b)


def same_content(a: Any, b: Any) -> bool:
    if isinstance(a, ChainMap):
        return same(a.maps, b.maps)
    if isinstance(a, dict | types.MappingProxyType):
        factories = getattr(a, "default_factory", None) is getattr(b, "default_factory", None)
        return factories and same(list(map(list, a.items())), list(map(list, b.items())))
    if isinstance(a, list | tuple | deque):
        ends = getattr(a, "maxlen", None) == getattr(b, "maxlen", None)
        return ends and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, memoryview):
        return (a.format, a.shape, a.readonly, a.tobytes()) == (b.format, b.shape, b.readonly, b.tobytes())
    if isinstance(a, dt.datetime | dt.time):
        return repr(a) == repr(b)
    if dataclasses.is_dataclass(a) or isinstance(a, types.SimpleNamespace):
        return same(dict(attributes_of(a)), dict(attributes_of(b)))
    return bool(a == b) and repr(a) == repr(b)


def _told(error: BaseException) -> list[Any]:
    inner = list(error.exceptions) if isinstance(error, BaseExceptionGroup) else []
    return [error.args, dict(error.__dict__), inner]


def _sorted(items: Any) -> list[Any]:
    return sorted(items, key=lambda item: (type(item).__name__, repr(item)))


def _paired(left: list[Any], right: list[Any]) -> bool:
    """Whether each item has a partner of its own: sets inside sets print in any order."""
    for item in left:
        partner = next((at for at, other in enumerate(right) if same(item, other)), None)
        if partner is None:
            return False
        del right[partner]
    return True


def _same_array(a: Any, b: Any) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype == object:
        return same(a.tolist(), b.tolist())
    return bool(a.tobytes() == b.tobytes())


# -- any value at all --------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=[]), max_size=6)
SCALARS = st.one_of(
    st.sampled_from(range(len(VALUES))).map(lambda number: VALUES[number]),
    st.integers(),
    st.floats(),
    TEXTS,
    st.binary(max_size=6),
    st.binary(max_size=6).map(bytearray),
    st.datetimes(timezones=st.none() | st.timezones()),
    st.decimals(),
    st.fractions(),
    st.uuids(),
)
KEYS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXTS, st.binary(max_size=4), st.sampled_from(Colour)),
    lambda inner: st.one_of(
        st.tuples(inner, inner),
        st.frozensets(inner, max_size=3),
        inner.map(Frozen),
        TEXTS.map(Name),
        inner.map(Pair),
    ),
    max_leaves=4,
)


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        lists.map(deque),
        lists.map(Rows),
        st.sets(KEYS, max_size=3),
        st.dictionaries(TEXTS, inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3).map(OrderedDict),
        st.dictionaries(KEYS, inner, max_size=3).map(lambda held: defaultdict(list, held)),
        st.tuples(inner, inner).map(lambda held: Point(*held)),
        inner.map(Frozen),
        st.tuples(inner, inner).map(lambda held: Pair(*held)),
        inner.map(Box),
        st.lists(inner, max_size=2).map(lambda args: ValueError(*args)),
    )


ANYTHING = st.recursive(SCALARS, _grown, max_leaves=12)
