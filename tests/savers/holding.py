"""Run as a program: holds thread `t` of a file and does what it is told, line by line.

    python holding.py FILE TTL

It says `held <epoch>` when it has the thread. Then `write` stores a checkpoint and answers
`stored` or the name of the error; `release` frees the thread; the end of the input ends it.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from perdure.checkpoint.port import Batch
from perdure.checkpoint.sqlite import SqliteSaver
from savers.makers import first, new


def main(path: str, ttl: str) -> None:
    saver = SqliteSaver(path, lease_ttl=float(ttl))
    epoch = saver.load("t", "").epoch + 1
    saver.submit(first("t", epoch, n=0)).wait()
    print("held", epoch, flush=True)
    for line in sys.stdin:
        order = line.strip()
        batch = Batch("t", epoch, checkpoint=new(2, n=1))
        if order == "release":
            batch = Batch("t", epoch, release=True)
        try:
            saver.submit(batch).wait()
            print("stored", flush=True)
        except Exception as error:
            print(type(error).__name__, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
