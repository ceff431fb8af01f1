"""A run that ends badly leaves its thread free, with all that was finished on it."""

import signal
import threading

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.errors import UnstorableError
from perdure.func import entrypoint, task
from perdure.types import interrupt

T = {"configurable": {"thread_id": "t"}}
DURABILITIES = ["sync", "async", "exit"]


@pytest.mark.parametrize("durability", DURABILITIES)
def test_unstorable_result_frees_the_thread(drive, saver, durability):
    """After a result that cannot be stored the thread takes a new input."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return threading.Lock() if x == "bad" else x

    with pytest.raises(UnstorableError):
        drive.invoke(workflow, "bad", T, durability=durability)
    assert drive.invoke(workflow, "good", T, durability=durability) == "good"


@pytest.mark.parametrize("durability", DURABILITIES)
def test_unstorable_question_frees_the_thread(drive, saver, durability):
    """After a question that cannot be stored the thread takes a new input."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return interrupt(threading.Lock()) if x == "bad" else x

    with pytest.raises(UnstorableError):
        drive.invoke(workflow, "bad", T, durability=durability)
    assert drive.invoke(workflow, "good", T, durability=durability) == "good"


@pytest.mark.parametrize("durability", DURABILITIES)
def test_unstorable_result_keeps_finished_tasks(drive, saver, durability):
    """A result that cannot be stored costs none of the tasks that finished before it."""
    ran, broken = [], [True]

    @task
    def work():
        ran.append(1)
        return "done"

    @entrypoint(checkpointer=saver)
    def workflow(x):
        result = work().result()
        return threading.Lock() if broken[0] else result

    with pytest.raises(UnstorableError):
        drive.invoke(workflow, 1, T, durability=durability)
    broken[0] = False
    assert drive.invoke(workflow, None, T, durability=durability) == "done"
    assert ran == [1]


def interrupted(saver, ran, place):
    """Runs three tasks; Ctrl-C is pressed once, in the body after the first or in the second."""
    pressed = []

    def press_at(here):
        if here == place and not pressed:
            pressed.append(here)
            signal.raise_signal(signal.SIGINT)

    @task
    def work(i):
        if i == 2:
            press_at("task")
        ran.append(i)
        return i

    @entrypoint(checkpointer=saver)
    def workflow(x):
        first = work(1).result()
        press_at("body")
        return [first, work(2).result(), work(3).result()]

    return workflow


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("place", ["task", "body"])
def test_keyboard_interrupt_keeps_finished_tasks(saver, place, durability):
    """After Ctrl-C in a sync run it goes on behind its last finished task."""
    ran = []
    workflow = interrupted(saver, ran, place)
    with pytest.raises(KeyboardInterrupt):
        workflow.invoke(1, T, durability=durability)
    assert workflow.invoke(None, T, durability=durability) == [1, 2, 3]
    assert ran.count(1) == 1


@pytest.mark.parametrize("place", ["task", "body"])
def test_keyboard_interrupt_frees_the_thread(saver, place):
    """After Ctrl-C in a sync run its thread takes a new input."""
    workflow = interrupted(saver, [], place)
    with pytest.raises(KeyboardInterrupt):
        workflow.invoke(1, T)
    assert workflow.invoke(2, T) == [1, 2, 3]


class PortOnly:
    """A saver with the port's sync methods and nothing besides."""

    def __init__(self):
        self.inner = InMemorySaver()

    def get_tuple(self, config):
        return self.inner.get_tuple(config)

    def list(self, config, **options):
        return self.inner.list(config, **options)

    def put(self, *arguments):
        return self.inner.put(*arguments)

    def put_writes(self, config, writes, task_id, task_path=""):
        self.inner.put_writes(config, writes, task_id, task_path)

    def delete_thread(self, thread_id):
        self.inner.delete_thread(thread_id)


def test_saver_with_the_sync_methods_alone_serves():
    """An object that has no more than the port's sync methods keeps a sync run."""

    @entrypoint(checkpointer=PortOnly())
    def workflow(x, *, previous=None):
        return (previous or 0) + x

    workflow.invoke(1, T)
    assert workflow.invoke(2, T) == 3
