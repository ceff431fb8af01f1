"""What a key with a reducer holds before anything is written."""

from __future__ import annotations

import collections.abc
from typing import Any, get_origin

from perdure.typing import MISSING

_CONCRETE = {
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Iterable: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}


def concrete(typ: Any) -> Any:
    """The type to construct where `typ` is an abstract collection; else `typ` itself."""
    return _CONCRETE.get(get_origin(typ) or typ, typ) if _hashable(typ) else typ


def empty_value(typ: Any) -> Any:
    """A fresh empty value of the type, or MISSING if it cannot be made without arguments."""
    try:
        return typ()
    except Exception:  # whatever a constructor raises says that there is no empty value
        return MISSING


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
