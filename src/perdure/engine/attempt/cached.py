"""An attempt whose result may lie in a cache.

Only what a piece of code has returned is kept: no error, no pause, and no result that an answer
went into, since the next who asks has to be asked again.
"""

from __future__ import annotations

import logging
from typing import Any

from xxhash import xxh3_128_hexdigest

from perdure.engine.effects import CacheGet, CacheSet, Steps
from perdure.engine.frame import Frame
from perdure.engine.keys import namespace_of_node, namespace_of_task
from perdure.engine.refusals import unstorable
from perdure.memory_policies import CacheKey, CachePolicy
from perdure.typing import MISSING

logger = logging.getLogger("perdure")


def cached(frame: Frame, policy: CachePolicy[Any], steps: Steps[Any]) -> Steps[Any]:
    """Gives the cached result, or carries the steps out and keeps what they give."""
    key = _key_of(frame, policy)
    found = yield from _look(frame, key)
    if found is not MISSING:
        steps.close()
        frame.cached = True
        if frame.task is None:
            return found
        frame.task.cached = True
        return [tuple(write) for write in found]
    value = yield from steps
    # With calls still under way it may yet turn out that the code pauses.
    if frame.cache is not None and not frame.open:
        yield from _keep(frame, key, value)
    return value


def _look(frame: Frame, key: CacheKey) -> Steps[Any]:
    try:
        found = yield CacheGet(key)
    except Exception as error:
        logger.warning("the cache could not be read for %r, so it runs: %r", frame.name, error)
        return MISSING
    return next(iter(found.values()), MISSING)


def _keep(frame: Frame, key: CacheKey, value: Any) -> Steps[None]:
    try:
        yield CacheSet(key, value)
    except TypeError as error:
        kind = "task" if frame.task is None else "node"
        raise unstorable(f"{kind} {frame.name!r} with a cache policy returned", error) from error
    except Exception as error:
        logger.warning("the result of %r could not be cached: %r", frame.name, error)


def _key_of(frame: Frame, policy: CachePolicy[Any]) -> CacheKey:
    raw = policy.key_func(*frame.args, **frame.kwargs)
    if isinstance(raw, str):
        raw = raw.encode("utf-8", "surrogatepass")
    namespace = (
        namespace_of_task(frame.action) if frame.task is None else namespace_of_node(frame.name, frame.action)
    )
    return CacheKey(namespace, xxh3_128_hexdigest(raw), policy.ttl)
