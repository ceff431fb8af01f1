"""An attempt that may take only so long."""

from __future__ import annotations

from typing import Any

from perdure.engine.attempt.body import attempt
from perdure.engine.effects import Limit, Steps
from perdure.engine.frame import Frame


def limited(frame: Frame) -> Steps[Any]:
    """Runs the frame's code once under a time limit; the driver keeps it wherever it calls user code."""
    assert frame.timeout is not None
    frame.run.limits = True
    frame.watch = yield Limit(frame.timeout)
    try:
        return (yield from attempt(frame))
    finally:
        frame.watch = None
