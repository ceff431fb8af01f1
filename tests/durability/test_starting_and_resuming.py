"""How a run begins, by what it is given and what the thread holds."""

import operator
from typing import Annotated, TypedDict

import pytest

from perdure.errors import EmptyInputError, InvalidUpdateError
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.types import Command

T = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]


@pytest.fixture
def ran():
    return []


def chain(ran, saver, broken=()):
    """A graph a -> b -> c whose broken nodes fail; `broken` may change between runs."""

    def node(name):
        def run(state):
            ran.append(name)
            if name in broken:
                raise ConnectionError(name)
            return {"log": [name]}

        return run

    builder = StateGraph(State)
    builder.add_sequence([(name, node(name)) for name in "abc"])
    builder.add_edge(START, "a")
    return builder.compile(checkpointer=saver)


def test_none_on_a_fresh_thread_is_no_input(drive, saver, ran):
    """There is nothing to resume."""
    with pytest.raises(EmptyInputError, match="no input"):
        drive.invoke(chain(ran, saver), None, T)


def test_none_without_saver_is_no_input(drive, ran):
    """Without a saver there never is."""
    with pytest.raises(EmptyInputError):
        drive.invoke(chain(ran, None), None)


def test_none_on_a_finished_thread_runs_nothing(drive, saver, ran):
    """It returns the current values and makes no checkpoint."""
    graph = chain(ran, saver)
    result = drive.invoke(graph, {"log": []}, T)
    before = len(drive.history(graph, T))
    ran.clear()
    assert drive.invoke(graph, None, T) == result
    assert ran == []
    assert len(drive.history(graph, T)) == before


def test_none_after_an_error_runs_only_what_is_unfinished(drive, saver, ran):
    """The documented recovery: fix the cause, invoke(None) on the same thread."""
    broken = {"b"}
    graph = chain(ran, saver, broken)
    with pytest.raises(ConnectionError):
        drive.invoke(graph, {"log": []}, T)
    assert drive.get_state(graph, T).next == ("b",)
    broken.clear()
    assert drive.invoke(graph, None, T) == {"log": ["a", "b", "c"]}
    assert ran == ["a", "b", "b", "c"]


def test_a_script_that_is_started_again_asks_which_it_is(drive, saver, ran):
    """It gives the input to a fresh thread and None to one that is not finished: nothing runs twice."""
    broken = {"b"}
    graph = chain(ran, saver, broken)

    def start():
        return drive.invoke(graph, None if drive.get_state(graph, T).next else {"log": []}, T)

    with pytest.raises(ConnectionError):
        start()
    broken.clear()
    assert start() == {"log": ["a", "b", "c"]}
    assert ran == ["a", "b", "b", "c"]


def test_none_may_fail_again_and_again(drive, saver, ran):
    """Each attempt goes on from the same place until the cause is gone."""
    broken = {"b"}
    graph = chain(ran, saver, broken)
    for given in ({"log": []}, None, None):
        with pytest.raises(ConnectionError):
            drive.invoke(graph, given, T)
    broken.clear()
    assert drive.invoke(graph, None, T) == {"log": ["a", "b", "c"]}
    assert ran == ["a", "b", "b", "b", "b", "c"]


def test_v3_with_none_resumes_after_an_error(saver):
    """The documented recovery works through stream_events too."""
    broken, ran = [True], []

    @task
    def work(i):
        ran.append(i)
        if i == 2 and broken[0]:
            raise ConnectionError("down")
        return i

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [work(i).result() for i in (1, 2)]

    with pytest.raises(ConnectionError):
        _ = workflow.stream_events(1, T, version="v3").output
    broken[0] = False
    assert workflow.stream_events(None, T, version="v3").output == [1, 2]
    assert ran == [1, 2, 2]


def test_new_input_on_a_failed_thread_starts_over(drive, saver, ran):
    """A fresh input discards the open tasks and runs on the accumulated state."""
    broken = {"b"}
    graph = chain(ran, saver, broken)
    with pytest.raises(ConnectionError):
        drive.invoke(graph, {"log": []}, T)
    broken.clear()
    assert drive.invoke(graph, {"log": ["again"]}, T) == {"log": ["a", "again", "a", "b", "c"]}


def test_second_run_continues_the_step_numbers(drive, saver, ran):
    """Supersteps of a thread are numbered through."""
    graph = chain(ran, saver)
    drive.invoke(graph, {"log": []}, T)
    drive.invoke(graph, {"log": []}, T)
    steps = [s.metadata["step"] for s in reversed(drive.history(graph, T))]
    assert steps == list(range(-1, 9))


def test_command_on_a_fresh_thread_updates_once(drive, saver, ran):
    """A Command as first input is applied once, not as input and update both."""
    assert drive.invoke(chain(ran, saver), Command(update={"log": ["u"]}), T)["log"].count("u") == 1


def test_command_goto_on_a_finished_thread(drive, saver, ran):
    """A Command may send a finished thread to a node."""
    graph = chain(ran, saver)
    drive.invoke(graph, {"log": []}, T)
    ran.clear()
    drive.invoke(graph, Command(goto="c"), T)
    assert ran == ["c"]


def test_parent_command_as_input_is_refused(drive, saver, ran):
    """A root graph has no parent to address."""
    with pytest.raises(InvalidUpdateError, match="There is no parent graph"):
        drive.invoke(chain(ran, saver), Command(graph=Command.PARENT, update={"log": []}), T)


def test_empty_dict_is_an_input(drive, saver, ran):
    """`{}` runs the graph."""
    assert drive.invoke(chain(ran, saver), {}, T) == {"log": ["a", "b", "c"]}


def test_threads_do_not_see_each_other(drive, saver, ran):
    """Each thread id has a history of its own."""
    graph = chain(ran, saver)
    drive.invoke(graph, {"log": ["one"]}, T)
    other = {"configurable": {"thread_id": "u"}}
    assert drive.invoke(graph, {"log": ["two"]}, other)["log"][0] == "two"


def test_another_object_on_the_same_file_goes_on(drive, tmp_path, ran):
    """A thread survives the saver object it was written by."""
    from perdure.checkpoint.sqlite import SqliteSaver

    broken, path = {"c"}, str(tmp_path / "threads.db")
    with SqliteSaver.from_conn_string(path) as saver, pytest.raises(ConnectionError):
        drive.invoke(chain(ran, saver, broken), {"log": []}, T)
    broken.clear()
    with SqliteSaver.from_conn_string(path) as saver:
        assert drive.invoke(chain(ran, saver, broken), None, T) == {"log": ["a", "b", "c"]}
    assert ran == ["a", "b", "c", "c"]


def test_unknown_checkpoint_is_a_missing_one(drive, saver, ran):
    """A checkpoint id that does not exist has nothing to resume."""
    graph = chain(ran, saver)
    drive.invoke(graph, {"log": []}, T)
    config = {"configurable": {"thread_id": "t", "checkpoint_id": "1f000000-0000-6000-8000-000000000000"}}
    with pytest.raises(EmptyInputError):
        drive.invoke(graph, None, config)


def test_finished_calls_of_an_open_task_can_be_seen(drive, saver):
    """`get_state` shows which calls of a failed entrypoint are done."""
    broken = [True]

    @task
    def download():
        return "file"

    @task
    def convert(name):
        if broken[0]:
            raise ConnectionError("down")
        return name + "2"

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return convert(download().result()).result()

    with pytest.raises(ConnectionError):
        drive.invoke(workflow, 1, T)
    (task_shown,) = drive.get_state(workflow, T).tasks
    shown = {call.name: (call.state, call.result) for call in task_shown.calls}
    assert shown["download"] == ("finished", "file")
    assert shown["convert"][0] == "failed"
    download_call = next(c for c in task_shown.calls if c.name == "download")
    assert download_call.started <= download_call.ended
