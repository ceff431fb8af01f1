"""Run as a program: stores a batch and dies before its n-th statement.

    python crashing.py FILE N

It exits with 9 when it died so, with 0 when it came through.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from perdure.checkpoint.port import Batch, ThreadChanged
from perdure.checkpoint.sqlite import SqliteSaver
from savers.makers import new, record


def main(path: str, number: str) -> None:
    left = int(number)

    def step(statement: str) -> None:
        nonlocal left
        if left == 0:
            os._exit(9)
        left -= 1

    saver = SqliteSaver(path)
    with contextlib.suppress(ThreadChanged):
        # Frees the thread from the run that died before.
        saver.submit(Batch("t", saver.load("t", "").epoch + 1, claim=True, release=True)).wait()
    loaded = saver.load("t", "")
    assert loaded.tuple is not None
    at = loaded.tuple.checkpoint["id"]
    before = loaded.tuple.checkpoint["channel_values"]
    saver._database._writer.set_trace_callback(step)  # type: ignore[union-attr]
    messages = [*before["messages"], {"text": "answer " * 30}]
    batch = Batch(
        "t",
        loaded.epoch + 1,
        claim=True,
        records=[record(at, messages=messages[-1:])],
        checkpoint=new(loaded.counter + 1, at, messages=messages, n=before["n"] + 1),
    )
    saver.submit(batch).wait()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
