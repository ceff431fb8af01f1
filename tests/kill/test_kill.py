"""kill -9 at random instants: nothing finished runs again, no accepted run is lost.

Real processes run workflows with `durability="sync"` (the default) on a SQLite file and are
killed at any moment, again and again. What happened is read from a log that the workflows write
beside what perdure stores.
"""

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import perdure

WORKER = str(Path(__file__).with_name("worker.py"))
ENV = {**os.environ, "PYTHONPATH": str(Path(perdure.__file__).parents[1])}

RESULTS = {
    "functions": sum([0, 1, 2, 10, 11, 12, 21, 22, 103]),
    "coroutines": sum([0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32]),
    "graphs": 3,
}
KINDS = list(RESULTS)


def worker(path, kind, last):
    return subprocess.Popen(
        [sys.executable, WORKER, str(path), kind, str(last)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENV,
    )


def kill_at_random(path, kind, kills, rng):
    """Starts a worker and kills it so many times, at instants spread over its work."""
    for _ in range(kills):
        with worker(path, kind, 100_000) as process:
            assert process.stdout.readline() == "ready\n", process.stderr.read()
            threading.Event().wait(rng.uniform(0, 0.1))
            assert process.poll() is None, process.stderr.read()
            process.kill()


def finish(path, kind):
    """Lets a last worker finish the thread that was open, and one more."""
    threads = [int(words[1]) for words in read_log(path) if words[0] == "accepted"]
    last = max(threads, default=0) + 1
    with worker(path, kind, last) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return last


def read_log(path):
    return [line.split() for line in Path(f"{path}.log").read_text().splitlines()]


def check(log, last, result):
    """Holds the log to the promise."""
    finished = set()
    for word, *what in log:
        if word == "run":
            assert tuple(what) not in finished, f"{what} was finished and ran again"
        elif word == "finished":
            finished.add(tuple(what))
    assert [words for words in log if words[0] == "lost"] == []
    results = {int(what[0]): int(what[1]) for word, *what in log if word == "done"}
    assert results == dict.fromkeys(range(last + 1), result)


def rampage(path, kind, kills, seed):
    Path(f"{path}.log").touch()
    kill_at_random(path, kind, kills, random.Random(seed))
    last = finish(path, kind)
    log = read_log(path)
    check(log, last, RESULTS[kind])
    return log


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_kills(tmp_path, kind):
    """Seven kills for each kind of workflow."""
    rampage(tmp_path / "threads.db", kind, 7, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_kills(tmp_path, kind):
    """Seventy kills for each kind of workflow, and they did interrupt runs."""
    log = rampage(tmp_path / "threads.db", kind, 70, seed=2)
    assert len([words for words in log if words[0] == "resumed"]) > 10
