"""Removing a thread beside a run that holds it, from within that run, and after it."""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import ThreadBusyError
from perdure.func import entrypoint

T = {"configurable": {"thread_id": "t"}, "metadata": {"run_id": "r"}}
OTHER = {"configurable": {"thread_id": "other"}, "metadata": {"run_id": "r"}}

REMOVALS = {
    "delete_thread": lambda saver: saver.delete_thread("t"),
    "prune": lambda saver: saver.prune(["t", "other"], strategy="delete"),
    "delete_for_runs": lambda saver: saver.delete_for_runs(["r"]),
    "copy_thread": lambda saver: saver.copy_thread("other", "t"),
    "adelete_thread": lambda saver: asyncio.run(saver.adelete_thread("t")),
}


@pytest.fixture(params=REMOVALS)
def remove(request):
    """Every way in which a thread may lose what it holds."""
    return REMOVALS[request.param]


@contextmanager
def running(drive, saver):
    """A workflow with a run on thread `t` that is under way, its second; let through at the end."""
    reached, opened = threading.Event(), threading.Event()

    @entrypoint(checkpointer=saver)
    def workflow(step, *, previous=None):
        if step == 10:
            reached.set()
            assert opened.wait(30)
        return (previous or 0) + step

    drive.invoke(workflow, 1, OTHER)
    drive.invoke(workflow, 1, T)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(contextvars.copy_context().run, drive.invoke, workflow, 10, T)
        assert reached.wait(30)
        try:
            yield workflow, future
        finally:
            opened.set()
        future.result()


def test_a_thread_that_runs_is_not_removed(drive, saver, remove):
    """Beside a run every removal is refused, and the run keeps what the thread held."""
    with running(drive, saver) as (workflow, _), pytest.raises(ThreadBusyError, match="nothing of it was"):
        remove(saver)
    assert drive.invoke(workflow, 1, T) == 12


def test_a_thread_that_runs_is_not_removed_by_another_saver(drive, tmp_path, remove):
    """The same where somebody else has the file open."""
    path = tmp_path / "threads.db"
    with SqliteSaver(path) as saver, SqliteSaver(path) as other:
        with running(drive, saver) as (workflow, _), pytest.raises(ThreadBusyError):
            remove(other)
        assert drive.invoke(workflow, 1, T) == 12


def test_a_thread_is_removed_after_its_run(drive, saver, remove):
    """When the run has ended nothing refuses."""
    with running(drive, saver):
        pass
    remove(saver)
    left = list(saver.list({"configurable": {"thread_id": "t"}}))
    assert len(left) in (0, len(list(saver.list({"configurable": {"thread_id": "other"}}))))


@pytest.mark.parametrize("way", ["prune", "delete_for_runs"])
def test_other_threads_are_removed_all_the_same(drive, saver, way):
    """One thread that is busy does not keep the others."""
    with running(drive, saver), pytest.raises(ThreadBusyError):
        REMOVALS[way](saver)
    assert list(saver.list({"configurable": {"thread_id": "other"}})) == []


def test_pruning_to_the_latest_harms_no_run(drive, saver):
    """Old checkpoints may be removed beside a run."""
    with running(drive, saver) as (workflow, _):
        saver.prune(["t"])
    assert drive.invoke(workflow, 1, T) == 12


@pytest.mark.parametrize("remove", [REMOVALS["delete_thread"], REMOVALS["prune"]])
def test_a_run_may_remove_its_own_thread(drive, saver, remove):
    """The code of a run that holds the thread may empty it; the run goes on with it."""

    @entrypoint(checkpointer=saver)
    def workflow(step, *, previous=None):
        if step == 2:
            remove(saver)
        return (previous or 0) + step

    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, 2, T) == 3
    assert len(list(saver.list({"configurable": {"thread_id": "t"}}))) == 1


def test_a_nested_run_may_remove_the_thread(saver):
    """What the run around a nested one holds counts as its own."""

    @entrypoint()
    def inner(x):
        saver.delete_thread("t")
        return x

    @entrypoint(checkpointer=saver)
    def outer(x):
        return inner.invoke(x)

    assert outer.invoke(1, T) == 1


def test_a_run_may_not_remove_the_thread_of_another(drive, saver):
    """Code of one run is refused the thread that another holds."""

    @entrypoint(checkpointer=saver)
    def cleaner(x):
        saver.delete_thread("t")

    with running(drive, saver), pytest.raises(ThreadBusyError):
        drive.invoke(cleaner, 1, {"configurable": {"thread_id": "cleaner"}})
