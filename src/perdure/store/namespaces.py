"""Which namespaces there can be, and which of them a pattern means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

__all__ = ["InvalidNamespaceError", "Namespace", "check_labels", "check_target", "is_prefix", "matches"]

Namespace: TypeAlias = tuple[str, ...]
"""Labels from the outside in, such as ("users", "ann", "facts")."""

_RESERVED = "langgraph"


class InvalidNamespaceError(ValueError):
    """A namespace has a label that cannot be, or none at all."""


def check_labels(namespace: Namespace) -> None:
    """Raises unless it is a tuple of labels that every store can keep."""
    if not isinstance(namespace, tuple):
        raise TypeError(f"a namespace is a tuple of labels, such as ('users', 'ann'); got {namespace!r}")
    for label in namespace:
        fault = _fault(label)
        if fault:
            raise InvalidNamespaceError(f"Invalid namespace label {label!r} in {namespace}: {fault}.")


def check_target(namespace: Namespace) -> None:
    """Raises unless items may be written there."""
    check_labels(namespace)
    if not namespace:
        raise InvalidNamespaceError("Namespace cannot be empty: give at least one label.")
    if namespace[0] == _RESERVED:
        raise InvalidNamespaceError(f'Root label for namespace cannot be "{_RESERVED}". Got: {namespace}')


def _fault(label: object) -> str | None:
    if not isinstance(label, str):
        return f"labels must be strings, not {type(label).__name__}"
    if not label:
        return "labels cannot be empty"
    if "." in label:
        return "labels cannot contain periods ('.')"
    if "\0" in label:
        return "labels cannot contain NUL"
    return None


def is_prefix(prefix: Namespace, namespace: Namespace) -> bool:
    """Whether a namespace lies at or below another, label by label."""
    return namespace[: len(prefix)] == prefix


def matches(namespace: Namespace, match_type: str, path: Sequence[str]) -> bool:
    """Whether a namespace starts or ends with a pattern; "*" stands for any one label.

    Raises ValueError for another kind of match than `prefix` and `suffix`.
    """
    if match_type not in ("prefix", "suffix"):
        raise ValueError(f"match_type must be 'prefix' or 'suffix', not {match_type!r}")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
