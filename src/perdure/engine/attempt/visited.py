"""An attempt that a guest is told of."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from perdure.engine.effects import Effect, Steps, Tell
from perdure.engine.guest import Visit


def visited(visit: Visit | None, steps: Steps[Any], output: Any = None) -> Generator[Effect[Any], Any, Any]:
    """Carries steps out, and tells the guest when they begin and how they end.

    Args:
        output: Gives what the guest is shown as the result, where it is not what the steps give.
    """
    if visit is None:
        return (yield from steps)
    yield Tell(visit, "begin")
    try:
        value = yield from steps
    except GeneratorExit:
        raise
    except BaseException as error:
        yield Tell(visit, "fail", error)
        raise
    yield Tell(visit, "end", value if output is None else output())
    return value
