"""What reaches a saver, and when, under each durability."""

import asyncio
import logging
from typing import TypedDict

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    a: str


class Recording(InMemorySaver):
    """Notes every documented call that stores something."""

    def __init__(self):
        super().__init__()
        self.log = []

    def put(self, config, checkpoint, metadata, new_versions):
        self.log.append(("put", metadata["source"], metadata["step"]))
        self.parents = [*getattr(self, "parents", []), config["configurable"].get("checkpoint_id")]
        self.ids = [*getattr(self, "ids", []), checkpoint["id"]]
        return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config, writes, task_id, task_path=""):
        for channel, value in writes:
            self.log.append(("write", channel, value))
        return super().put_writes(config, writes, task_id, task_path)

    async def aput(self, config, checkpoint, metadata, new_versions):
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config, writes, task_id, task_path=""):
        return self.put_writes(config, writes, task_id, task_path)

    def puts(self):
        return [entry[1:] for entry in self.log if entry[0] == "put"]


def two_nodes(saver, second=None):
    builder = StateGraph(State)
    builder.add_node("x", lambda state: {"a": "x"})
    builder.add_node("y", second or (lambda state: {"a": "y"}))
    builder.add_edge(START, "x")
    builder.add_edge("x", "y")
    return builder.compile(checkpointer=saver)


def three_tasks(saver, seen=None):
    """Each task notes what the saver had stored when it began."""

    @task
    def step(i):
        if seen is not None:
            seen.append([value for kind, _, value in saver.log if kind == "write"])
        return f"result {i}"

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [step(i).result() for i in range(3)]

    return workflow


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_graph_saves_every_superstep(drive, durability):
    """Input and each superstep are checkpoints, in order, each the parent of the next."""
    saver = Recording()
    drive.invoke(two_nodes(saver), {"a": ""}, T, durability=durability)
    assert saver.puts() == [("input", -1), ("loop", 0), ("loop", 1), ("loop", 2)]
    assert saver.parents[1:] == saver.ids[:-1]


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_writes_reach_the_saver_before_the_checkpoint_that_supersedes_them(drive, durability):
    """A step's results are stored on the checkpoint it started from, then the next one."""
    saver = Recording()
    drive.invoke(two_nodes(saver), {"a": ""}, T, durability=durability)
    order = [e for e in saver.log if e in (("write", "a", "x"), ("put", "loop", 1))]
    assert order == [("write", "a", "x"), ("put", "loop", 1)]
    order = [e for e in saver.log if e in (("write", "a", "y"), ("put", "loop", 2))]
    assert order == [("write", "a", "y"), ("put", "loop", 2)]


def test_exit_saves_the_last_checkpoint_only(drive):
    """One checkpoint a run, numbered as if all had been saved."""
    saver = Recording()
    drive.invoke(two_nodes(saver), {"a": ""}, T, durability="exit")
    assert saver.puts() == [("loop", 2)]


def test_exit_of_a_clean_functional_run_saves_one_checkpoint(drive):
    """Task results that nobody needs any more are not written."""
    saver = Recording()
    drive.invoke(three_tasks(saver), 1, T, durability="exit")
    assert saver.puts() == [("loop", 0)]


def test_exit_history_has_one_entry_per_run(drive):
    """The history shows runs, not steps."""
    graph = two_nodes(InMemorySaver())
    for _ in range(3):
        drive.invoke(graph, {"a": ""}, T, durability="exit")
    assert len(drive.history(graph, T)) == 3


def test_exit_after_an_error_is_resumable(drive):
    """Under exit a failed run leaves what a resume needs."""
    broken, ran = [True], []

    def flaky(state):
        ran.append("y")
        if broken[0]:
            raise ConnectionError("down")
        return {"a": state["a"] + "y"}

    graph = two_nodes(InMemorySaver(), flaky)
    with pytest.raises(ConnectionError):
        drive.invoke(graph, {"a": ""}, T, durability="exit")
    assert drive.get_state(graph, T).next == ("y",)
    broken[0] = False
    assert drive.invoke(graph, None, T, durability="exit") == {"a": "xy"}
    assert ran == ["y", "y"]


def test_exit_after_a_pause_is_resumable(drive, saver):
    """Under exit a paused entrypoint keeps its finished tasks."""
    ran = []

    @task
    def work(i):
        ran.append(i)
        return i

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [work(1).result(), interrupt("?"), work(2).result()]

    drive.invoke(workflow, 1, T, durability="exit")
    assert drive.invoke(workflow, Command(resume=True), T, durability="exit") == [1, True, 2]
    assert ran == [1, 2]


def test_exit_saves_on_keyboard_interrupt(saver):
    """Any door but a crash writes: also a KeyboardInterrupt."""
    presses = [True]

    def node(state):
        if presses and presses.pop():
            raise KeyboardInterrupt
        return {"a": state["a"] + "y"}

    graph = two_nodes(saver, node)
    with pytest.raises(KeyboardInterrupt):
        graph.invoke({"a": ""}, T, durability="exit")
    assert graph.get_state(T).next == ("y",)
    assert graph.invoke(None, T) == {"a": "xy"}


def test_sync_stores_each_result_before_the_next_task_begins(drive):
    """Under sync a result is stored before the code that asked for it sees it."""
    saver, seen = Recording(), []
    drive.invoke(three_tasks(saver, seen), 1, T, durability="sync")
    stored = [[v for v in values if str(v).startswith("result")] for values in seen]
    assert stored == [[], ["result 0"], ["result 0", "result 1"]]


def test_sync_is_the_default(drive):
    """Without a word the safe mode is meant."""
    saver, seen = Recording(), []
    drive.invoke(three_tasks(saver, seen), 1, T)
    assert ["result 0" in values for values in seen] == [False, True, True]


def test_the_environment_may_choose(drive, monkeypatch):
    """`PERDURE_DURABILITY` sets the default of all runs."""
    monkeypatch.setenv("PERDURE_DURABILITY", "exit")
    saver = Recording()
    drive.invoke(two_nodes(saver), {"a": ""}, T)
    assert saver.puts() == [("loop", 2)]


def test_the_call_wins_over_the_environment(drive, monkeypatch):
    """An explicit durability replaces the environment's."""
    monkeypatch.setenv("PERDURE_DURABILITY", "exit")
    saver = Recording()
    drive.invoke(two_nodes(saver), {"a": ""}, T, durability="sync")
    assert len(saver.puts()) == 4


def test_async_has_written_everything_when_the_run_returns(drive):
    """Under async nothing is in flight any more when the caller goes on."""
    saver = Recording()
    drive.invoke(three_tasks(saver), 1, T, durability="async")
    assert [v for kind, _, v in saver.log if kind == "write" and str(v).startswith("result")] == [
        "result 0",
        "result 1",
        "result 2",
    ]
    assert saver.puts() == [("input", -1), ("loop", 0)]


def test_parallel_results_are_all_kept(drive, saver):
    """Results that arrive together are all stored."""
    ran = []

    @task
    def work(i):
        ran.append(i)
        return i

    @entrypoint(checkpointer=saver)
    def workflow(n):
        total = sum(f.result() for f in [work(i) for i in range(n)])
        return [total, interrupt("?")]

    for mode in ("sync", "async", "exit"):
        config = {"configurable": {"thread_id": mode}}
        drive.invoke(workflow, 24, config, durability=mode)
        assert drive.invoke(workflow, Command(resume=1), config, durability=mode) == [276, 1]
    assert len(ran) == 24 * 3


def test_children_inherit_the_durability(drive):
    """A subgraph of an exit run saves nothing when it ends cleanly."""
    saver = Recording()
    child = two_nodes(None)
    builder = StateGraph(State)
    builder.add_node("child", child)
    builder.add_edge(START, "child")
    drive.invoke(builder.compile(checkpointer=saver), {"a": ""}, T, durability="exit")
    assert saver.puts() == [("loop", 1)]


def test_saver_without_task_path_is_served():
    """`task_path` is only passed where the method takes it."""
    stored = []

    class Old(InMemorySaver):
        def put_writes(self, config, writes, task_id):
            stored.append(task_id)
            return super().put_writes(config, writes, task_id)

    assert three_tasks_plain(Old()).invoke(1, T) == ["result 0"]
    assert stored


def three_tasks_plain(saver):
    @task
    def step(i):
        return f"result {i}"

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [step(0).result()]

    return workflow


def test_async_driver_calls_the_async_methods():
    """A saver whose async methods are its own is served by them under ainvoke."""
    called = []

    class OnlyAsync(InMemorySaver):
        async def aput(self, config, checkpoint, metadata, new_versions):
            called.append("aput")
            return InMemorySaver.put(self, config, checkpoint, metadata, new_versions)

        async def aput_writes(self, config, writes, task_id, task_path=""):
            called.append("aput_writes")
            return InMemorySaver.put_writes(self, config, writes, task_id, task_path)

    asyncio.run(three_tasks_plain(OnlyAsync()).ainvoke(1, T))
    assert "aput" in called
    assert "aput_writes" in called


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_error_of_the_saver_fails_the_run(drive, durability):
    """What cannot be saved is not passed over in silence."""

    class Full(InMemorySaver):
        def put(self, config, checkpoint, metadata, new_versions):
            raise OSError("disk full")

        async def aput(self, config, checkpoint, metadata, new_versions):
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        drive.invoke(two_nodes(Full()), {"a": ""}, T, durability=durability)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_without_saver_a_durability_only_warns(drive, durability):
    """There is nothing to be durable with; the run works."""
    with pytest.warns(UserWarning, match="durability"):
        assert drive.invoke(two_nodes(None), {"a": ""}, durability=durability) == {"a": "y"}


def test_unknown_durability_is_refused(drive):
    """A misspelt mode is an error."""
    with pytest.raises(ValueError, match="snyc"):
        drive.invoke(two_nodes(InMemorySaver()), {"a": ""}, T, durability="snyc")


@pytest.mark.parametrize(("old", "puts"), [(True, 4), (False, 1)])
def test_checkpoint_during_is_an_old_name(drive, old, puts):
    """True means async, False means exit; both warn."""
    saver = Recording()
    with pytest.warns(DeprecationWarning, match="checkpoint_during"):
        drive.invoke(two_nodes(saver), {"a": ""}, T, checkpoint_during=old)
    assert len(saver.puts()) == puts


def test_both_names_are_too_many(drive):
    """Old and new name together are refused."""
    graph = two_nodes(InMemorySaver())
    with pytest.raises(ValueError, match="Cannot use both"):
        drive.invoke(graph, {"a": ""}, T, checkpoint_during=True, durability="sync")


def test_checkpoints_are_not_logged_as_problems(drive, caplog):
    """A plain run leaves no warning behind."""
    with caplog.at_level(logging.WARNING):
        drive.invoke(three_tasks(InMemorySaver()), 1, T)
    assert caplog.text == ""
