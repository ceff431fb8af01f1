"""What can be wrong with stored bytes, and with values on their way there."""

from __future__ import annotations

from perdure.errors import PerdureError, UnknownTypeError


class CorruptBytesError(PerdureError, ValueError):
    """Bytes that this library did not write: cut off, changed, or made by something else."""


class Refusal(Exception):
    """A value cannot be stored; says why, where there is more to say than its type. Internal:
    users get an UnstorableError that says where the value lies."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class TooDeep(Refusal):
    """A value is nested without end, or nearly so. Internal."""


class ForeignError(Exception):
    """Carries an error that a user's own decoder raised out of ours. Internal."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def type_name(cls: type) -> str:
    """A type as messages name it: `int`, `sqlite3.Connection`."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def article(name: str) -> str:
    """The name with "a" or "an" before it."""
    return f"an {name}" if name[:1] in "aeiouAEIOU" else f"a {name}"


def unknown_type(name: str, move: str) -> UnknownTypeError:
    return UnknownTypeError(f"stored bytes name the type {name}, which {move}")
