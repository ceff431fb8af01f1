"""Values of the library itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.checkpoint.serde.types import _DeltaSnapshot
from perdure.interrupts import Interrupt
from perdure.serde import Codec, Registry
from perdure.types import (
    Command,
    Overwrite,
    PregelTask,
    Send,
    StateSnapshot,
    TaskCall,
    TimeoutPolicy,
)

VALUES: list[Any] = [
    Send("n", {"x": (1,)}),
    Send("n", None, timeout=timedelta(seconds=1)),
    Command(update={"a": {1}}, goto=[Send("n", 1), "m"], resume={"id": 1}, graph=Command.PARENT),
    Interrupt({"q": (1,)}, "id", {"type": "string"}),
    Overwrite([1, (2,)]),
    TimeoutPolicy(run_timeout=1.5, idle_timeout=timedelta(1)),
    TaskCall("id", "n", "failed", error=None, started=1.0),
    PregelTask("id", "n", ("a", 1), interrupts=(Interrupt(1, "x"),)),
    StateSnapshot({"a": 1}, ("n",), {"configurable": {}}, None, None, None, (), ()),  # type: ignore[arg-type]
    _DeltaSnapshot([1, 2]),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("codec", [Codec(), Codec(Registry(strict=True))], ids=["default", "strict"])
def test_a_value_of_ours_comes_back_as_it_was(codec: Codec, value: Any) -> None:
    """Packets, commands, questions and snapshots are data, in strict registries too."""
    read = codec.decode(codec.encode([value]))[0]
    assert (read, type(read)) == (value, type(value))
