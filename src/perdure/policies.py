"""How often a step is tried, and how long it may take."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeAlias

RetryOn: TypeAlias = type[BaseException] | Sequence[type[BaseException]] | Callable[[Exception], bool]

# -- retries -----------------------------------------------------------------------------------

_PROGRAM_FAULTS = (
    ValueError,
    TypeError,
    ArithmeticError,
    ImportError,
    LookupError,
    NameError,
    SyntaxError,
    RuntimeError,
    ReferenceError,
    StopIteration,
    StopAsyncIteration,
    OSError,
)


def default_retry_on(exc: Exception) -> bool:
    """Whether trying again may help: yes, but for faults of the program and of the request.

    Connection errors and HTTP errors with a 5xx status are tried again; other HTTP errors,
    OSError and what a bug raises (ValueError, TypeError ...) are not.
    """
    if isinstance(exc, ConnectionError):
        return True
    status = _http_status(exc)
    if status is not None:
        return 500 <= status < 600
    if _is_from("requests", "HTTPError", exc):
        return True
    return not isinstance(exc, _PROGRAM_FAULTS)


def _is_from(module: str, name: str, exc: Exception) -> bool:
    # An error's class can only exist where its module is already imported.
    cls = getattr(sys.modules.get(module), name, None)
    return isinstance(cls, type) and isinstance(exc, cls)


def _http_status(exc: Exception) -> int | None:
    if not (_is_from("httpx", "HTTPStatusError", exc) or _is_from("requests", "HTTPError", exc)):
        return None
    # A response of `requests` is falsy for error codes, hence no truth test.
    response = getattr(exc, "response", None)
    status = getattr(response, "status_code", None)
    return status if isinstance(status, int) else None


class RetryPolicy(NamedTuple):
    """How a failed step is tried again."""

    initial_interval: float = 0.5
    """Seconds before the first retry."""
    backoff_factor: float = 2.0
    """What the interval grows by from retry to retry."""
    max_interval: float = 128.0
    """Greatest number of seconds between two attempts."""
    max_attempts: int = 3
    """Attempts in all, the first included."""
    jitter: bool = True
    """Adds up to one second of chance to each interval."""
    retry_on: RetryOn = default_retry_on
    """Exception class or classes, or a predicate: what is worth another attempt."""

    def matches(self, error: BaseException) -> bool:
        """Whether this policy is one for `error`. Raises TypeError for an unusable `retry_on`."""
        on = self.retry_on
        if isinstance(on, type) and issubclass(on, BaseException):
            return isinstance(error, on)
        if isinstance(on, Sequence):
            return isinstance(error, _exception_classes(on))
        if callable(on) and not isinstance(on, type):
            return isinstance(error, Exception) and bool(on(error))
        raise _unusable(on)

    def delay(self, attempt: int, random01: float) -> float:
        """Seconds to sleep after failed attempt number `attempt` (from 1)."""
        try:
            grown = self.initial_interval * self.backoff_factor ** (attempt - 1)
        except OverflowError:
            grown = self.max_interval
        interval = min(self.max_interval, grown)
        return interval + random01 if self.jitter else interval


def _exception_classes(given: Sequence[Any]) -> tuple[type[BaseException], ...]:
    classes = tuple(given)
    for cls in classes:
        if not (isinstance(cls, type) and issubclass(cls, BaseException)):
            raise _unusable(cls)
    return classes


def _unusable(given: object) -> TypeError:
    return TypeError(
        "retry_on must be an Exception class, a sequence of them, or a function that takes the "
        f"error and returns a bool; got {given!r}"
    )


# -- time limits -------------------------------------------------------------------------------

Duration: TypeAlias = float | timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutPolicy:
    """How long one attempt of a step may take. Durations are seconds or timedeltas."""

    run_timeout: Duration | None = None
    """Greatest duration from start to end."""
    idle_timeout: Duration | None = None
    """Greatest duration without a sign of progress."""
    refresh_on: Literal["auto", "heartbeat"] = "auto"
    """What counts as progress: writes, stream chunks, calls and model events (`auto`), or
    nothing but `runtime.heartbeat()` (`heartbeat`)."""

    @classmethod
    def coerce(cls, value: Duration | TimeoutPolicy | None) -> TimeoutPolicy | None:
        """The policy in seconds, or None where nothing is limited. A bare duration limits the
        run. Raises ValueError for limits of zero or less and an unknown `refresh_on`."""
        if value is None:
            return None
        policy = value if isinstance(value, TimeoutPolicy) else cls(run_timeout=value)
        run = _seconds("run_timeout", policy.run_timeout)
        idle = _seconds("idle_timeout", policy.idle_timeout)
        if policy.refresh_on not in ("auto", "heartbeat"):
            raise ValueError(f"refresh_on must be 'auto' or 'heartbeat', not {policy.refresh_on!r}")
        if run is None and idle is None:
            return None
        if (type(policy.run_timeout), type(policy.idle_timeout)) == (type(run), type(idle)):
            return policy
        return cls(run_timeout=run, idle_timeout=idle, refresh_on=policy.refresh_on)


def _seconds(name: str, value: Duration | None) -> float | None:
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if not seconds > 0:
        raise ValueError(f"{name} must be greater than 0, not {value!r}")
    return seconds
