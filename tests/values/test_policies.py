"""Retries, time limits, caches and traces: what the policies mean."""

from __future__ import annotations

import sys
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import NodeTimeoutError
from perdure.memory_policies import CachePolicy, TracePolicy, default_cache_key, omit_payload
from perdure.policies import RetryPolicy, TimeoutPolicy, default_retry_on

# -- RetryPolicy: when


class Custom(Exception):
    pass


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError(),
        ConnectionResetError(),
        Custom(),
        NodeTimeoutError("n", 1, kind="run", run_timeout=1),
    ],
    ids=repr,
)
def test_tried_again_by_default(error: Exception) -> None:
    """What may be gone the next time is worth another attempt."""
    assert default_retry_on(error)


@pytest.mark.parametrize(
    "error",
    [ValueError(), TypeError(), ZeroDivisionError(), ImportError(), KeyError(), NameError(), SyntaxError(),
     RuntimeError(), ReferenceError(), StopIteration(), StopAsyncIteration(), OSError(), TimeoutError(),
     TimeoutError(), FileNotFoundError()],
    ids=repr,
)  # fmt: skip
def test_not_tried_again_by_default(error: Exception) -> None:
    """What a bug raises, it raises again."""
    assert not default_retry_on(error)


class FalsyResponse:
    """As that of `requests`: a response with an error code is false."""

    def __init__(self, status_code: int) -> None:
        self.status_code = status_code

    def __bool__(self) -> bool:
        return self.status_code < 400


@pytest.mark.parametrize(("module", "name"), [("httpx", "HTTPStatusError"), ("requests", "HTTPError")])
@pytest.mark.parametrize(("status", "again"), [(500, True), (503, True), (404, False), (429, False)])
def test_http_errors_by_status(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str, status: int, again: bool
) -> None:
    """A server's fault is worth another attempt, a client's is not."""

    class HTTPFault(OSError):
        response = FalsyResponse(status)

    fake: Any = ModuleType(module)
    setattr(fake, name, HTTPFault)
    monkeypatch.setitem(sys.modules, module, fake)
    assert default_retry_on(HTTPFault()) is again


def test_requests_error_without_response(monkeypatch: pytest.MonkeyPatch) -> None:
    """An HTTPError that never got a response is tried again."""

    class HTTPError(OSError):
        response = None

    monkeypatch.setitem(sys.modules, "requests", SimpleNamespace(HTTPError=HTTPError))
    assert default_retry_on(HTTPError())


@pytest.mark.parametrize(
    ("retry_on", "error", "expected"),
    [
        (ValueError, ValueError(), True),
        (ValueError, UnicodeError(), True),
        (ValueError, TypeError(), False),
        ((ValueError, KeyError), KeyError(), True),
        ([ValueError], KeyError(), False),
        ((), ValueError(), False),
        (lambda error: "again" in str(error), ValueError("again"), True),
        (lambda error: "again" in str(error), ValueError("never"), False),
    ],
)
def test_retry_on(retry_on: Any, error: Exception, expected: bool) -> None:
    """Classes, sequences of classes and predicates say what is worth another attempt."""
    assert RetryPolicy(retry_on=retry_on).matches(error) is expected


@pytest.mark.parametrize("retry_on", ["ValueError", int, 5, [ValueError, "x"]])
def test_unusable_retry_on(retry_on: Any) -> None:
    """Anything else is refused by name."""
    with pytest.raises(TypeError, match="retry_on must be an Exception class"):
        RetryPolicy(retry_on=retry_on).matches(ValueError())


# -- RetryPolicy: how long


def test_intervals_grow_to_the_greatest() -> None:
    """Without jitter the delays are a geometric row with a ceiling."""
    policy = RetryPolicy(initial_interval=1, backoff_factor=3, max_interval=10, jitter=False)
    assert [policy.delay(attempt, 0.9) for attempt in (1, 2, 3, 4)] == [1, 3, 9, 10]


def test_jitter_adds_up_to_a_second() -> None:
    """The chance given by the caller is added as it is."""
    assert RetryPolicy(initial_interval=1).delay(1, 0.25) == 1.25


@given(attempt=st.integers(1, 10**6), chance=st.floats(0, 1))
def test_delays_stay_in_bounds(attempt: int, chance: float) -> None:
    """However often it is tried, the delay is between nothing and the greatest plus a second."""
    policy = RetryPolicy()
    assert 0 <= policy.delay(attempt, chance) <= policy.max_interval + 1


# -- TimeoutPolicy


@pytest.mark.parametrize("value", [2, 2.0, timedelta(seconds=2), TimeoutPolicy(run_timeout=2)])
def test_a_duration_limits_the_run(value: Any) -> None:
    """A bare duration, of whatever kind, is a run time-out in seconds."""
    assert TimeoutPolicy.coerce(value) == TimeoutPolicy(run_timeout=2.0)


@pytest.mark.parametrize("value", [None, TimeoutPolicy(), TimeoutPolicy(refresh_on="heartbeat")])
def test_no_limit(value: Any) -> None:
    """A policy without limits is none."""
    assert TimeoutPolicy.coerce(value) is None


def test_a_normal_policy_stays_itself() -> None:
    """A policy that is in seconds already is given back."""
    policy = TimeoutPolicy(run_timeout=2.0, idle_timeout=1.5, refresh_on="heartbeat")
    assert TimeoutPolicy.coerce(policy) is policy


def test_idle_limits_are_made_seconds() -> None:
    """All parts of a policy are normalised, and the rest is kept."""
    policy = TimeoutPolicy(idle_timeout=timedelta(minutes=1), refresh_on="heartbeat")
    assert TimeoutPolicy.coerce(policy) == TimeoutPolicy(idle_timeout=60.0, refresh_on="heartbeat")


@pytest.mark.parametrize("value", [0, -1, timedelta(0), float("nan"), TimeoutPolicy(idle_timeout=0)])
def test_limits_are_greater_than_zero(value: Any) -> None:
    """A limit that nothing could keep is refused."""
    with pytest.raises(ValueError, match="greater than 0"):
        TimeoutPolicy.coerce(value)


def test_unknown_refresh() -> None:
    """What counts as progress has two names."""
    with pytest.raises(ValueError, match="'auto' or 'heartbeat'"):
        TimeoutPolicy.coerce(TimeoutPolicy(run_timeout=1, refresh_on="never"))  # type: ignore[arg-type]


# -- CachePolicy, TracePolicy


def test_cache_keys_do_not_mind_order() -> None:
    """Dicts and sets with the same content give the same key."""
    one = default_cache_key({"a": 1, "b": {3, 1, 2}}, x=[1, (2,)])
    other = default_cache_key({"b": {2, 1, 3}, "a": 1}, x=[1, (2,)])
    assert one == other
    assert one != default_cache_key({"a": 2, "b": {3, 1, 2}}, x=[1, (2,)])


def test_cache_keys_tell_kinds_apart() -> None:
    """A dict, a list and a set with the same elements have keys of their own."""
    assert len({default_cache_key({1: 2}), default_cache_key([[1, 2]]), default_cache_key({(1, 2)})}) == 3


def test_cache_policy_defaults() -> None:
    """A policy needs nothing, and is keyword-only."""
    assert CachePolicy() == CachePolicy(key_func=default_cache_key, ttl=None)
    with pytest.raises(TypeError):
        CachePolicy(default_cache_key)  # type: ignore[misc]


def test_omit_payload() -> None:
    """Traces can be told to record nothing."""
    assert TracePolicy(process_inputs=omit_payload).process_inputs is omit_payload
    assert omit_payload({"secret": 1}) == {}
