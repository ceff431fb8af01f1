"""Run as a program: forks while a thread stores and others read; each child uses the file.

    python forking.py FILE

It prints how the children ended: 0 for one that stored and read what it should.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from perdure.checkpoint.sqlite import SqliteSaver
from savers.makers import checkpoint, config

FORKS = 40
READERS = 3
PATIENCE = 30


def main(path: str) -> None:
    saver = SqliteSaver(path, synchronous="NORMAL")
    saver.put(config("seen"), checkpoint(a=1), {}, {})
    over = threading.Event()

    def repeat(work: object) -> None:
        while not over.is_set():
            work()  # type: ignore[operator]

    works = [
        lambda: saver.put(config("parent"), checkpoint(a=1), {}, {}),
        *[lambda: saver.get_tuple(config("seen"))] * READERS,
    ]
    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    ended = [fork(saver, n) for n in range(FORKS)]
    over.set()
    for thread in threads:
        thread.join()
    print(ended, len(list(saver.list(config("seen")))))
    saver.close()


def fork(saver: SqliteSaver, number: int) -> int:
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    signal.alarm(PATIENCE)
    saver.put(config(f"child {number}"), checkpoint(a=number), {}, {})
    found = saver.get_tuple(config("seen"))
    os._exit(0 if found is not None else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
