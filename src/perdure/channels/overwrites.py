"""How a write says that it replaces the value instead of joining it."""

from __future__ import annotations

from typing import Any

from perdure.errors import ErrorCode, InvalidUpdateError, create_error_message
from perdure.types import Overwrite
from perdure.typing import MISSING

WRAPPERS = frozenset((Overwrite, dict))
"""Classes of writes that may be one; asked first, as it is cheap."""

_KEY = "__overwrite__"


def replacement(write: Any) -> Any:
    """The value to put in place of the present one, or MISSING for an ordinary write.

    Besides Overwrite itself its forms in JSON count: `{"__overwrite__": value}` and
    `{"type": "__overwrite__", "value": value}`.
    """
    if isinstance(write, Overwrite):
        return write.value
    if type(write) is dict:
        if len(write) == 1 and _KEY in write:
            return write[_KEY]
        if len(write) == 2 and write.get("type") == _KEY and "value" in write:
            return write["value"]
    return MISSING


def plain(write: Any) -> Any:
    """The value that a write gives to a channel which has no reducer."""
    if type(write) in WRAPPERS:
        value = replacement(write)
        return write if value is MISSING else value
    return write


def second_overwrite(key: str) -> InvalidUpdateError:
    """The error of two replacements in one superstep."""
    return InvalidUpdateError(
        create_error_message(
            message=f"At key {key!r}: Can receive only one Overwrite value per super-step.",
            error_code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
        )
    )


def too_many(key: str, advice: str) -> InvalidUpdateError:
    """The error of several values where one fits."""
    return InvalidUpdateError(
        create_error_message(
            message=f"At key {key!r}: Can receive only one value per step. {advice}",
            error_code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
        )
    )
