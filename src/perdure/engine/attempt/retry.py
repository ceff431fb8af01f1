"""Attempts at a task under its retry policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.engine.attempt.body import attempt
from perdure.engine.attempt.cached import cached
from perdure.engine.attempt.limited import limited
from perdure.engine.effects import Sleep, Steps
from perdure.engine.frame import Frame
from perdure.engine.outcomes import drop_undelivered
from perdure.types import RetryPolicy


def attempts(frame: Frame) -> Steps[Any]:
    """Carries a task out, again and again while a policy says so.

    The first policy that takes an error decides; the count of attempts is shared by all. A
    later attempt finds the calls that earlier ones have finished. Signals are never retried.
    Where a cache has the result, nothing is carried out.
    """
    once = attempt if frame.timeout is None else limited
    steps = _retrying(frame, once) if frame.retry else once(frame)
    return steps if frame.cache is None else cached(frame, frame.cache, steps)


def _retrying(frame: Frame, once: Callable[[Frame], Steps[Any]]) -> Steps[Any]:
    while True:
        try:
            return (yield from once(frame))
        except Exception as error:
            policy = _policy(frame, error)
            if policy is None or frame.fatal is not None or frame.run.closing is not None:
                raise
            yield Sleep(policy, frame.attempt)
            drop_undelivered(frame)
            frame.run.ledger.drop_failures(frame.failed, error)
            frame.failed.clear()
            frame.begin()


def _policy(frame: Frame, error: Exception) -> RetryPolicy | None:
    for policy in frame.retry:
        if policy.matches(error):
            return policy if frame.attempt < policy.max_attempts else None
    return None
