"""Warnings about spellings that will go away."""

from __future__ import annotations

from typing_extensions import override

__all__ = [
    "LangGraphDeprecatedSinceV05",
    "LangGraphDeprecatedSinceV10",
    "LangGraphDeprecatedSinceV11",
    "LangGraphDeprecationWarning",
    "PerdureDeprecatedSinceV05",
    "PerdureDeprecatedSinceV10",
    "PerdureDeprecatedSinceV11",
    "PerdureDeprecationWarning",
]

Version = tuple[int, int]


class PerdureDeprecationWarning(DeprecationWarning):
    """A deprecated spelling was used. Versions are those of the documented interface."""

    message: str
    since: Version
    expected_removal: Version

    def __init__(
        self, message: str, *args: object, since: Version, expected_removal: Version | None = None
    ) -> None:
        super().__init__(message, *args)
        self.message = message.rstrip(".")
        self.since = since
        self.expected_removal = expected_removal or (since[0] + 1, 0)

    @override
    def __str__(self) -> str:
        since = "V{}.{}".format(*self.since)
        removal = "V{}.{}".format(*self.expected_removal)
        return f"{self.message}. Deprecated in LangGraph {since} to be removed in {removal}."


class PerdureDeprecatedSinceV05(PerdureDeprecationWarning):
    """Deprecated since 0.5 of the documented interface."""

    def __init__(self, message: str, *args: object) -> None:
        super().__init__(message, *args, since=(0, 5), expected_removal=(2, 0))


class PerdureDeprecatedSinceV10(PerdureDeprecationWarning):
    """Deprecated since 1.0 of the documented interface."""

    def __init__(self, message: str, *args: object) -> None:
        super().__init__(message, *args, since=(1, 0), expected_removal=(2, 0))


class PerdureDeprecatedSinceV11(PerdureDeprecationWarning):
    """Deprecated since 1.1 of the documented interface."""

    def __init__(self, message: str, *args: object) -> None:
        super().__init__(message, *args, since=(1, 1), expected_removal=(3, 0))


LangGraphDeprecationWarning = PerdureDeprecationWarning
LangGraphDeprecatedSinceV05 = PerdureDeprecatedSinceV05
LangGraphDeprecatedSinceV10 = PerdureDeprecatedSinceV10
LangGraphDeprecatedSinceV11 = PerdureDeprecatedSinceV11
