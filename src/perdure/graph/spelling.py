"""Old spellings of keyword arguments: taken, with a warning, where the new one is not given."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Renamed: TypeAlias = Mapping[str, tuple[str, Callable[[str], DeprecationWarning]]]
"""Old name -> the new name, and the warning that says so."""


def with_renamed(
    owner: str, given: Mapping[str, Any], old: Mapping[str, Any], renamed: Renamed
) -> dict[str, Any]:
    """The arguments by their new names.

    Args:
        owner: What was called, for the error.
        given: Arguments by new name; None counts as not given.
        old: The other keyword arguments of the call.

    Raises:
        TypeError: `old` has a name that never was one.
    """
    arguments = dict(given)
    for name, value in old.items():
        if name not in renamed:
            raise TypeError(f"{owner} got an unexpected keyword argument {name!r}")
        new, category = renamed[name]
        warnings.warn(
            category(f"`{name}` is deprecated and will be removed. Please use `{new}` instead."),
            stacklevel=3,
        )
        if arguments.get(new) is None:
            arguments[new] = value
    return arguments
