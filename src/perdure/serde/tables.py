"""The built-in table: which kinds of values there are. Filled by the modules that know them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from ormsgpack import Ext

    from perdure.serde.decode import Decoding
    from perdure.serde.encode import Encoding
    from perdure.serde.registry import Registry

Put: TypeAlias = "Callable[[Encoding, Any], Ext]"
"""Tags one value."""

Resolve: TypeAlias = "Callable[[Registry, type], Put | None]"
"""Finds out how instances of a class are tagged, if it knows."""

Load: TypeAlias = Callable[[bytes], Any]
"""Makes a value from its payload."""

Join: TypeAlias = "Callable[[Decoding, Any], Any]"
"""Makes a value from the content of its part, which it may keep."""

PUTS: dict[type, Put] = {}
"""By exact type."""

RESOLVERS: list[Resolve] = []
"""For classes that are not in the table, asked in this order."""

LOADS: dict[int, Load] = {}
JOINS: dict[int, Join] = {}
"""By code."""

NATIVE = (dict, list, str, bytes, int, float, bool, type(None))
"""What msgpack itself has types for."""

_STANDARD = "perdure.serde.stdlib"
_STANDARD_MODULES = (
    "array",
    "datetime",
    "decimal",
    "fractions",
    "ipaddress",
    "pathlib",
    "re",
    "time",
    "uuid",
    "zoneinfo",
)


def built_in(cls: type) -> Put | None:
    """How instances of exactly this class are tagged, where the built-in table knows it.

    The part of the table that is about these modules is loaded when it is first needed: they
    cost time to import.
    """
    if cls is memoryview or cls.__module__.partition(".")[0] in _STANDARD_MODULES:
        load_standard()
    return PUTS.get(cls)


def load_standard() -> None:
    """Completes the table."""
    import_module(_STANDARD)
