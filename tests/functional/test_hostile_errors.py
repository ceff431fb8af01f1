"""Errors, callbacks and values that user code may raise, attach and return without thinking."""

import asyncio
import threading

import pytest

from perdure.checkpoint.base import BaseCheckpointSaver
from perdure.checkpoint.memory import InMemorySaver
from perdure.errors import RecordedError, UnstorableError
from perdure.func import entrypoint, task
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}


class Severe(BaseException):
    """Not an Exception."""


def test_base_exception_of_a_task_can_be_caught(drive):
    """A body that catches a task's BaseException goes on."""

    @task
    def fails():
        raise Severe("x")

    @entrypoint()
    def workflow(x):
        try:
            fails().result()
        except Severe:
            return "caught"

    assert drive.invoke(workflow, 1) == "caught"


def test_base_exception_of_an_async_task_can_be_caught():
    """The same where the task and the body are coroutines."""

    @task
    async def fails():
        raise Severe("x")

    @entrypoint()
    async def workflow(x):
        try:
            await fails()
        except Severe:
            return "caught"

    assert asyncio.run(workflow.ainvoke(1)) == "caught"


def test_generator_exit_of_a_task_is_an_error(drive):
    """A task that raises GeneratorExit fails with an error that names it."""

    @task
    def leaves():
        raise GeneratorExit

    @entrypoint()
    def workflow(x):
        return leaves().result()

    with pytest.raises(RuntimeError, match="'leaves' raised GeneratorExit"):
        drive.invoke(workflow, 1)


def test_generator_exit_of_an_async_task_is_an_error():
    """A coroutine that raises it does not hang its run."""

    @task
    async def leaves():
        raise GeneratorExit

    @entrypoint()
    async def workflow(x):
        return await leaves()

    with pytest.raises(RuntimeError, match="'leaves' raised GeneratorExit"):
        asyncio.run(workflow.ainvoke(1))


def test_generator_exit_of_a_body_is_an_error(drive):
    """A body that raises GeneratorExit fails with an error that names it."""

    @entrypoint()
    def workflow(x):
        raise GeneratorExit

    with pytest.raises(RuntimeError, match="'workflow' raised GeneratorExit"):
        drive.invoke(workflow, 1)


def test_generator_exit_of_an_async_body_is_an_error():
    """An async body that raises it does not hang its run."""

    @entrypoint()
    async def workflow(x):
        raise GeneratorExit

    with pytest.raises(RuntimeError, match="'workflow' raised GeneratorExit"):
        asyncio.run(workflow.ainvoke(1))


@pytest.mark.parametrize("look", ["exception", "result"])
def test_done_callback_may_look_at_a_paused_call(drive, saver, look):
    """A callback that reads the outcome of a call that asks does not break the run."""

    @task
    def work(i):
        return interrupt("?") if i == 1 else i

    @entrypoint(checkpointer=saver)
    def workflow(x):
        futures = [work(i) for i in range(3)]
        for future in futures:
            future.add_done_callback(lambda done: getattr(done, look)())
        return [future.result() for future in futures]

    paused = drive.invoke(workflow, 1, T)
    assert [question.value for question in paused["__interrupt__"]] == ["?"]
    assert drive.invoke(workflow, Command(resume=5), T) == [0, 5, 2]


def test_error_that_takes_no_notes_comes_out_as_it_is(drive):
    """An exception whose `add_note` raises is still the one that the caller gets."""

    class NoNotes(Exception):
        def add_note(self, note):
            raise RuntimeError("no notes")

    @entrypoint()
    def workflow(x):
        raise NoNotes("mine")

    with pytest.raises(NoNotes, match="mine"):
        drive.invoke(workflow, 1)


class TextOfErrors(BaseCheckpointSaver):
    """A saver on top of one of ours, whose documented methods show an error as its text."""

    def __init__(self):
        super().__init__()
        self.inner = InMemorySaver()

    def get_tuple(self, config):
        return self.inner.get_tuple(config)

    def list(self, config, **options):
        return self.inner.list(config, **options)

    def put(self, *arguments):
        return self.inner.put(*arguments)

    def put_writes(self, config, writes, task_id, task_path=""):
        self.inner.put_writes(config, writes, task_id, task_path)


def test_error_that_a_saver_kept_as_text_is_replayed_as_an_error():
    """A caught failure of which only the text is left is raised again, and not tried again."""
    ran = []

    @task
    def fails():
        ran.append(1)
        raise ValueError("broken")

    @entrypoint(checkpointer=TextOfErrors())
    def workflow(x):
        try:
            fails().result()
        except (ValueError, RecordedError) as error:
            caught = error
        interrupt("?")
        return [type(caught).__name__, "broken" in str(caught)]

    workflow.invoke(1, T)
    assert workflow.invoke(Command(resume=True), T) == ["RecordedError", True]
    assert ran == [1]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_unstorable_task_result_names_the_task(drive, saver, durability):
    """Whatever the durability, the error says which task returned what, and where in it."""

    @task
    def fetch():
        return {"rows": [threading.Lock()]}

    @entrypoint(checkpointer=saver)
    def workflow(x):
        fetch().result()

    with pytest.raises(UnstorableError, match=r"task 'fetch' returned \['rows'\]\[0\], a .*lock"):
        drive.invoke(workflow, 1, T, durability=durability)


def test_unstorable_question_names_who_asked(drive, saver):
    """The error says who asked a question with what, and where in it."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return interrupt({"a": threading.Lock()})

    with pytest.raises(UnstorableError, match=r"'workflow' asked a question with \['a'\], a .*lock"):
        drive.invoke(workflow, 1, T)


def test_unstorable_result_of_a_nested_run_names_it(drive, saver):
    """The result of a run without a saver of its own is stored by its parent, in its own name."""

    @entrypoint(checkpointer=False)
    def child(x):
        return {"a": threading.Lock()}

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return len(child.invoke(1))

    with pytest.raises(UnstorableError, match=r"'child' returned \['a'\], a .*lock"):
        drive.invoke(workflow, 1, T)


def test_lone_surrogate_in_a_thread_id_is_refused_in_words(drive, sqlite_saver):
    """A thread id that no database takes is shown in the error, with what to do."""

    @entrypoint(checkpointer=sqlite_saver)
    def workflow(x):
        return x

    with pytest.raises(ValueError, match=r"thread_id '\\ud800' has a lone surrogate"):
        drive.invoke(workflow, 1, {"configurable": {"thread_id": "\ud800"}})
