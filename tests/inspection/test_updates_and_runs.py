"""An update takes the thread for a moment: it never comes between a run and what it stores."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from inspection.graphs import adds, asks, chain
from perdure import entrypoint, task
from perdure.checkpoint.base import BaseCheckpointSaver
from perdure.checkpoint.memory import InMemorySaver
from perdure.errors import ThreadBusyError


def test_a_thread_that_runs_cannot_be_updated(saver: Any, thread: Any) -> None:
    """The error says that a run holds it; the run is not disturbed."""
    inside, go_on = threading.Event(), threading.Event()

    def node(state: Any) -> Any:
        inside.set()
        assert go_on.wait(30)
        return {"words": ["n"]}

    graph = chain("n", n=node).compile(saver)
    results: list[Any] = []
    run = threading.Thread(target=lambda: results.append(graph.invoke({"words": []}, thread())))
    run.start()
    assert inside.wait(30)
    with pytest.raises(ThreadBusyError):
        graph.update_state(thread(), {"words": ["u"]}, "n")
    with pytest.raises(ThreadBusyError):
        asyncio.run(graph.aupdate_state(thread(), {"words": ["u"]}, "n"))
    assert graph.get_state(thread()).next == ("n",)
    go_on.set()
    run.join()
    assert results == [{"words": ["n"]}]
    graph.update_state(thread(), {"words": ["u"]}, "n")
    assert graph.get_state(thread()).values == {"words": ["n", "u"]}


def test_a_run_may_update_the_thread_it_holds(drive: Any, saver: Any, thread: Any) -> None:
    """Code of the run writes under the run's own lease, and the run goes on."""

    def node(state: Any) -> Any:
        graph.update_state(thread(), {"words": ["inside"]}, "a")
        return {"words": ["b"]}

    graph: Any = chain("a", "b", "c", a=adds("a"), b=node).compile(saver)
    assert drive.invoke(graph, {"words": []}, thread()) == {"words": ["a", "b", "c"]}
    sources = [s.metadata["source"] for s in drive.history(graph, thread())]
    assert sources == ["loop", "loop", "update", "loop", "loop", "input"]


def test_a_run_may_update_another_thread(drive: Any, saver: Any, thread: Any) -> None:
    """Threads are held one by one."""
    other = chain("a").compile(saver)

    @task
    def note() -> None:
        other.update_state(thread("other"), {"words": ["noted"]}, "a")

    @entrypoint(checkpointer=saver)
    def flow(n: int) -> int:
        note().result()
        return n

    assert drive.invoke(flow, 1, thread()) == 1
    assert drive.get_state(other, thread("other")).values == {"words": ["noted"]}


def test_updates_from_many_threads_all_count(saver: Any, thread: Any) -> None:
    """Each update starts from what the one before has stored; a busy moment is told, not lost."""
    graph = chain("a").compile(saver)

    def note(number: int) -> None:
        while True:
            try:
                graph.update_state(thread(), {"words": [str(number)]}, "a")
            except ThreadBusyError:
                continue
            return

    workers = [threading.Thread(target=note, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    state = graph.get_state(thread())
    assert sorted(state.values["words"]) == [str(number) for number in range(8)]
    assert state.metadata["step"] == 7


def test_a_thread_that_changed_meanwhile_is_loaded_again(drive: Any, thread: Any) -> None:
    """An update that finds the thread newer than it was loaded starts over."""

    class Slow(InMemorySaver):
        between: Any = None

        def load(self, *address: Any) -> Any:
            loaded = super().load(*address)
            if self.between is not None:
                then, self.between = self.between, None
                then()
            return loaded

    saver = Slow()
    graph = chain("a").compile(saver)
    graph.update_state(thread(), {"words": ["1"]}, "a")
    saver.between = lambda: graph.update_state(thread(), {"words": ["2"]}, "a")
    drive.update_state(graph, thread(), {"words": ["3"]}, "a")
    assert graph.get_state(thread()).values == {"words": ["1", "2", "3"]}


class Kept(BaseCheckpointSaver[int]):
    """A saver of another make: documented methods alone, over one of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = InMemorySaver()
        self.called: list[str] = []

    def get_tuple(self, config: Any) -> Any:
        return self.inner.get_tuple(config)

    def list(self, config: Any, **narrowing: Any) -> Any:
        yield from self.inner.list(config, **narrowing)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        self.called.append("put")
        return self.inner.put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self.called.append("put_writes")
        self.inner.put_writes(config, writes, task_id, task_path)


def test_a_saver_of_another_make_serves_as_well(drive: Any, thread: Any) -> None:
    """Looking and updating go through the documented methods; what was done is stored first."""
    saver = Kept()
    graph = chain("a", "b", b=asks).compile(saver)
    drive.invoke(graph, {"words": []}, thread())
    saver.called.clear()
    drive.update_state(graph, thread(), {"words": ["u"]}, "b")
    assert saver.called == ["put_writes", "put"]
    state = drive.get_state(graph, thread())
    assert (state.values, state.next) == ({"words": ["a", "u"]}, ())
    assert [s.metadata["step"] for s in drive.history(graph, thread())] == [2, 1, 0, -1]
    assert drive.history(graph, thread())[1].tasks[0].result == {"words": ["u"]}


def test_calls_are_seen_in_a_saver_of_another_make(drive: Any, thread: Any) -> None:
    """What lies beside a call is found there too, in the state and in the history."""

    @task
    def double(n: int) -> int:
        return 2 * n

    @entrypoint(checkpointer=Kept())
    def flow(n: int) -> Any:
        return double(n).result(), asks(None)

    drive.invoke(flow, 2, thread())
    for state in (drive.get_state(flow, thread()), drive.history(flow, thread())[0]):
        assert [(c.name, c.result) for c in state.tasks[0].calls] == [("double", 4)]
