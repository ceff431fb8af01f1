"""Jobs are committed in groups, in order, each told once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from perdure.checkpoint.committer import Committer, Job


class Disk:
    """Remembers what was committed together; refuses work named `bad`, breaks on `broken`."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.open = threading.Event()
        self.open.set()
        self.begun = threading.Event()

    def commit(self, jobs: Sequence[Job[str]]) -> None:
        self.begun.set()
        assert self.open.wait(30)
        if any(job.work == "broken" for job in jobs):
            raise OSError("disk")
        for job in jobs:
            if job.work == "bad":
                job.error = ValueError("refused")
        self.groups.append([job.work for job in jobs if job.error is None])


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def committer(disk: Disk) -> Any:
    made: Committer[str] = Committer(disk.commit, name="writer", limit=4)
    yield made
    made.stop()


def test_what_waits_together_is_committed_together(disk: Disk, committer: Committer[str]) -> None:
    """Who waits for one job commits all that are queued, in their order."""
    jobs = [committer.submit("t", name) for name in "abc"]
    jobs[1].wait()
    assert disk.groups == [["a", "b", "c"]]


def test_a_refused_job_fails_alone(disk: Disk, committer: Committer[str]) -> None:
    """The rest of its group is stored."""
    good, bad = committer.submit("t", "good"), committer.submit("t", "bad")
    good.wait()
    with pytest.raises(ValueError, match="refused"):
        bad.wait()
    assert disk.groups == [["good"]]


def test_a_broken_group_is_tried_one_by_one(disk: Disk, committer: Committer[str]) -> None:
    """When the transaction fails, only the job at fault fails."""
    jobs = [committer.submit("t", name) for name in ("a", "broken", "b")]
    jobs[0].wait()
    jobs[2].wait()
    with pytest.raises(OSError, match="disk"):
        jobs[1].wait()
    assert disk.groups == [["a"], ["b"]]


def test_a_leader_takes_along_what_comes_meanwhile(disk: Disk, committer: Committer[str]) -> None:
    """A job that comes while another thread commits is not left lying in the queue."""
    disk.open.clear()
    committer.submit("t", "a")
    leader = threading.Thread(target=committer.flush)
    leader.start()
    assert disk.begun.wait(30)
    told = threading.Event()
    committer.submit("t", "b", lambda error: told.set())
    committer.flush()
    disk.open.set()
    assert told.wait(30)
    leader.join()
    assert disk.groups == [["a"], ["b"]]


def test_a_waiting_leader_leaves_later_jobs_to_the_writer(disk: Disk, committer: Committer[str]) -> None:
    """Who waits for his own job does not go on committing those of others, nor forgets them."""
    disk.open.clear()
    mine = committer.submit("t", "a")
    leader = threading.Thread(target=mine.wait)
    leader.start()
    assert disk.begun.wait(30)
    told = threading.Event()
    committer.submit("t", "b", lambda error: told.set())
    committer.flush()
    disk.open.set()
    assert told.wait(30)
    leader.join()


def test_the_writer_ends_when_idle() -> None:
    """No thread is left when there has been nothing to do for a while."""
    disk = Disk()
    committer: Committer[str] = Committer(disk.commit, name="idle writer", idle=0.01)
    told = threading.Event()
    committer.submit("t", "a", lambda error: told.set())
    committer.wake()
    assert told.wait(30)
    (writer,) = (each for each in threading.enumerate() if each.name == "idle writer")
    writer.join(30)
    assert not writer.is_alive()
    committer.submit("t", "b", lambda error: told.set()).wait()
    committer.stop()


def test_too_many_jobs_slow_down_who_submits(disk: Disk, committer: Committer[str]) -> None:
    """Jobs that nobody waits for do not pile up."""
    for n in range(20):
        committer.throttle(committer.submit("t", str(n)))
    assert len(disk.groups) == 4
    assert [len(group) for group in disk.groups] == [5, 5, 5, 5]


def test_a_listener_that_fails_harms_nobody(disk: Disk, committer: Committer[str]) -> None:
    """An error of `on_done` is logged; the next is told all the same."""
    told: list[Any] = []

    def fail(error: Any) -> None:
        raise RuntimeError("listener")

    committer.submit("t", "a", fail)
    committer.submit("t", "b", told.append).wait()
    assert told == [None]


def test_an_interrupted_leader_fails_its_group(disk: Disk) -> None:
    """Ctrl-C while committing reaches its thread, and nobody waits for ever."""
    told: list[Any] = []

    def interrupted(jobs: Sequence[Job[str]]) -> None:
        raise KeyboardInterrupt

    committer: Committer[str] = Committer(interrupted, name="writer")
    other = committer.submit("t", "a", told.append)
    with pytest.raises(KeyboardInterrupt):
        committer.submit("t", "b").wait()
    assert other.done
    assert [type(error) for error in told] == [KeyboardInterrupt]


def test_all_of_a_key_are_settled(disk: Disk, committer: Committer[str]) -> None:
    """`settle_all` returns when what was queued under the key is stored."""
    job = committer.submit("t", "a")
    committer.settle_all("other")
    assert not job.done
    committer.settle_all("t")
    assert job.done


def test_many_threads_lose_nothing(disk: Disk, committer: Committer[str]) -> None:
    """Every job of many threads is stored once, those of one thread in its order."""
    done = threading.Semaphore(0)

    def work(name: str) -> None:
        for n in range(50):
            job = committer.submit(name, f"{name} {n}", lambda error: done.release())
            if n % 3 == 0:
                job.wait()
            elif n % 3 == 1:
                committer.flush()
            else:
                committer.wake()

    threads = [threading.Thread(target=work, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(8 * 50):
        assert done.acquire(timeout=30)
    stored = [work for group in disk.groups for work in group]
    for n in range(8):
        assert [work for work in stored if work.split()[0] == str(n)] == [f"{n} {k}" for k in range(50)]


def test_what_comes_while_the_writer_commits_is_not_left_behind(
    disk: Disk, committer: Committer[str]
) -> None:
    """A job flushed while the writer thread has the lead is committed by it, without another call."""
    disk.open.clear()
    committer.submit("t", "first")
    committer.wake()
    assert disk.begun.wait(30)
    told = threading.Event()
    committer.submit("t", "second", lambda error: told.set())
    committer.flush()
    disk.open.set()
    assert told.wait(30)
    assert disk.groups == [["first"], ["second"]]
