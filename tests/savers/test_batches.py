"""What the engine hands to our own savers: batches, under a lease."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from perdure.checkpoint.base import BaseCheckpointSaver
from perdure.checkpoint.port import Batch, CallInfo, NativeSaver, Record, ThreadChanged
from perdure.errors import LeaseLostError, ThreadBusyError, UnstorableError
from savers.makers import checkpoint, config, first, holding, new, record

LONG = "long enough to lie in a row of its own " * 3
INFO = CallInfo("caller", "branch", 3, "name", "digest", True, 1.5, 2.5, "ns|x")


def store(saver: Any, batch: Batch) -> None:
    saver.submit(batch).wait()


def values(saver: Any, checkpoint_id: str | None = None) -> Any:
    return saver.load("t", "", checkpoint_id).tuple.checkpoint["channel_values"]


def test_our_savers_are_both_kinds(place: Any) -> None:
    """A saver of ours has the documented methods and those for the engine."""
    native: NativeSaver = place
    assert isinstance(native, BaseCheckpointSaver)


# -- what is stored ------------------------------------------------------------------------------


def test_a_fresh_thread_is_empty(place: Any) -> None:
    """Loading an unknown thread gives nothing, and leaves nothing behind."""
    loaded = place.load("t", "")
    assert (loaded.tuple, loaded.infos, loaded.counter, loaded.newest_id) == (None, {}, 0, None)
    assert list(place.list(None)) == []


def test_records_and_checkpoint_come_together(place: Any) -> None:
    """One batch holds a task's writes on the old checkpoint, and the new one."""
    begin = first("t", a=1)
    store(place, begin)
    old = begin.checkpoint.checkpoint["id"]
    following = new(2, old, a=2)
    store(place, Batch("t", 1, records=[record(old, a=2)], checkpoint=following))
    assert values(place) == {"a": 2}
    assert place.load("t", "", old).tuple.pending_writes == [("task", "a", 2)]
    assert place.load("t", "").tuple.parent_config == config(checkpoint_id=old)


def test_load_says_where_the_thread_stands(place: Any) -> None:
    """Epoch, counter and greatest id count over all namespaces."""
    begin = first("t", a=1)
    store(place, begin)
    child = new(2, ns="child", a=2)
    store(place, Batch("t", 1, checkpoint=child))
    loaded = place.load("t", "")
    assert (loaded.epoch, loaded.counter) == (1, 2)
    assert loaded.newest_id == child.checkpoint["id"]
    assert loaded.tuple.checkpoint["id"] == begin.checkpoint.checkpoint["id"]
    assert place.load("t", "new child").counter == 2


def test_errors_come_back_as_they_were(place: Any) -> None:
    """The engine gets a recorded error itself, where the documented methods show its text."""
    begin = first("t")
    store(place, begin)
    at = begin.checkpoint.checkpoint["id"]
    error = ValueError("no", 3)
    store(place, Batch("t", 1, records=[Record("", at, "task", [("__error__", error)])]))
    ((_, _, recorded),) = place.load("t", "").tuple.pending_writes
    assert (type(recorded), recorded.args) == (ValueError, ("no", 3))


def test_call_infos_lie_beside_writes(place: Any) -> None:
    """What the engine keeps about a call comes back by task id, and shows nowhere else."""
    begin = first("t")
    store(place, begin)
    at = begin.checkpoint.checkpoint["id"]
    store(place, Batch("t", 1, records=[Record("", at, "a", [("__return__", None)], "~p", INFO)]))
    store(place, Batch("t", 1, records=[record(at, "b", x=1)]))
    loaded = place.load("t", "")
    assert loaded.infos == {"a": INFO}
    assert loaded.tuple.pending_writes == [("b", "x", 1), ("a", "__return__", None)]


def test_what_is_not_changed_is_the_parents(place: Any) -> None:
    """A channel that is not named as changed keeps the parent's value."""
    begin = first("t", a=[LONG], b=1)
    store(place, begin)
    following = new(2, begin.checkpoint.checkpoint["id"], changed={"b"}, a=[LONG], b=2)
    store(place, Batch("t", 1, checkpoint=following))
    assert values(place) == {"a": [LONG], "b": 2}


def test_a_channel_that_is_gone_is_gone(place: Any) -> None:
    """The engine gives whole checkpoints: what they do not hold is empty."""
    begin = first("t", a=[LONG], b=1)
    store(place, begin)
    following = new(2, begin.checkpoint.checkpoint["id"], b=2)
    following.checkpoint["channel_versions"]["a"] = 1
    store(place, Batch("t", 1, checkpoint=following))
    assert values(place) == {"b": 2}


def test_what_cannot_be_stored_fails_at_once(place: Any) -> None:
    """An unstorable value raises from `submit`; the run goes on as if it had not been tried."""
    begin = first("t", a=[LONG])
    store(place, begin)
    at = begin.checkpoint.checkpoint["id"]
    with pytest.raises(UnstorableError):
        place.submit(Batch("t", 1, records=[record(at, a=[LONG, "new " * 20], b=threading.Lock())]))
    store(place, Batch("t", 1, checkpoint=new(2, at, a=[LONG, "new " * 20])))
    assert values(place) == {"a": [LONG, "new " * 20]}


def test_load_sees_what_was_submitted(place: Any) -> None:
    """What was handed over is read back although nobody waited for it."""
    place.submit(first("t", a=1))
    assert values(place) == {"a": 1}
    assert place.get_tuple(config()) is not None


def test_digests_are_of_content(place: Any) -> None:
    """Equal values have equal digests; sets count without order."""
    assert place.digest({"a": {"x", "y"}}) == place.digest({"a": {"y", "x"}})
    assert place.digest([1]) != place.digest([2])
    assert place.digest(threading.Lock()) == place.digest(threading.Lock())


# -- tickets -------------------------------------------------------------------------------------


def test_whoever_asked_is_told_once(place: Any) -> None:
    """`on_done` gets None when the batch is stored."""
    told: list[Any] = []
    ticket = place.submit(first("t"), told.append)
    ticket.wait()
    ticket.wait()
    assert told == [None]
    assert ticket.done


def test_a_refusal_is_told_and_raised(place: Any) -> None:
    """`on_done` gets the error of a refused batch, and `wait` raises it."""
    told: list[Any] = []
    ticket = place.submit(Batch("t", 5, release=True), told.append)
    for _ in range(2):
        with pytest.raises(LeaseLostError):
            ticket.wait()
    assert [type(error) for error in told] == [LeaseLostError]


@pytest.mark.parametrize("carry", ["flush", "wake"])
def test_others_carry_the_queue(place: Any, carry: str) -> None:
    """`flush` and `wake` bring a batch home that nobody waits for."""
    stored = threading.Event()
    place.submit(first("t", a=1), lambda error: stored.set())
    getattr(place, carry)()
    assert stored.wait(30)


def test_a_refused_batch_leaves_its_neighbours_alone(place: Any) -> None:
    """Batches that are committed together succeed or fail each for itself."""
    tickets = [place.submit(first(name, a=1)) for name in ("a", "b")]
    tickets.insert(1, place.submit(first("a", a=2)))
    tickets[0].wait()
    tickets[2].wait()
    with pytest.raises((ThreadBusyError, ThreadChanged)):
        tickets[1].wait()
    assert len(list(place.list(None))) == 2


def test_many_batches_nobody_waits_for(place: Any) -> None:
    """A long row of batches that may wait is stored whole and in order."""
    store(place, first("t", n=0))
    at = place.load("t", "").newest_id
    for n in range(600):
        place.submit(Batch("t", 1, records=[record(at, f"task{n:04}", n=n)], durable=False))
    found = place.get_tuple(config()).pending_writes
    assert [value for _, _, value in found] == list(range(600))


# -- leases --------------------------------------------------------------------------------------


def test_a_held_thread_is_busy(place: Any) -> None:
    """A second claim is refused, whatever epoch it names, and writes nothing."""
    store(place, first("t", a=1))
    for epoch in (1, 2, 3):
        with pytest.raises(ThreadBusyError, match="thread 't' is held by"):
            store(place, first("t", epoch, a=2))
    assert values(place) == {"a": 1}


def test_a_freed_thread_can_be_claimed(place: Any) -> None:
    """After a release the next epoch may claim."""
    store(place, first("t", a=1))
    store(place, Batch("t", 1, release=True))
    store(place, first("t", place.load("t", "").epoch + 1, a=2))
    assert values(place) == {"a": 2}


def test_one_batch_may_claim_and_release(place: Any) -> None:
    """A run that stores everything at its end takes and frees the thread in one go."""
    batch = first("t", a=1)
    batch.release = True
    store(place, batch)
    store(place, first("t", place.load("t", "").epoch + 1, a=2))
    assert values(place) == {"a": 2}


def test_a_thread_that_changed_is_loaded_again(place: Any) -> None:
    """A claim on what was loaded before another run came and went is refused."""
    batch = first("t", a=1)
    batch.release = True
    store(place, batch)
    with pytest.raises(ThreadChanged):
        store(place, first("t", 1, a=2))
    assert values(place) == {"a": 1}


def test_what_was_loaded_while_a_run_went_on_is_loaded_again(place: Any) -> None:
    """A claim after that run's end is refused: it has written since."""
    store(place, first("t", a=1))
    loaded = place.load("t", "")
    store(place, Batch("t", 1, checkpoint=new(2, a=2), release=True))
    with pytest.raises(ThreadChanged):
        store(place, first("t", loaded.epoch + 1, a=3))
    assert values(place) == {"a": 2}


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_run_without_the_lease_cannot_write(place: Any, epoch: int) -> None:
    """Batches of another epoch are refused and write nothing."""
    begin = first("t", a=1)
    store(place, begin)
    at = begin.checkpoint.checkpoint["id"]
    for batch in (
        Batch("t", epoch, records=[record(at, a=2)]),
        Batch("t", epoch, checkpoint=new(2, at, a=2)),
        Batch("t", epoch, release=True),
    ):
        with pytest.raises(LeaseLostError):
            store(place, batch)
    assert values(place) == {"a": 1}
    assert place.get_tuple(config()).pending_writes == []
    store(place, Batch("t", 1, release=True))


def test_a_run_that_has_ended_cannot_write(place: Any) -> None:
    """After its release a run's epoch is worth nothing."""
    store(place, first("t", a=1))
    store(place, Batch("t", 1, release=True))
    with pytest.raises(LeaseLostError):
        store(place, Batch("t", 1, checkpoint=new(2, a=2)))


def test_a_batch_of_nothing_needs_no_lease(place: Any) -> None:
    """It only waits for those before it, also for the one that freed the thread."""
    place.submit(first("t", a=1))
    place.submit(Batch("t", 1, release=True))
    store(place, Batch("t", 1))
    store(place, Batch("unknown", 1))
    assert [each.config["configurable"]["thread_id"] for each in place.list(None)] == ["t"]


def test_documented_methods_need_no_lease(place: Any) -> None:
    """`put` and `put_writes` write beside a run, which goes on."""
    begin = first("t", a=1)
    store(place, begin)
    at = begin.checkpoint.checkpoint["id"]
    place.put_writes(config(checkpoint_id=at), [("x", 1)], "by hand")
    place.put(config(), checkpoint(a="by hand"), {}, {})
    store(place, Batch("t", 1, checkpoint=new(2, at, a=2)))
    store(place, Batch("t", 1, checkpoint=new(3, at, a=3)))
    assert values(place) == {"a": 3}
    assert len(list(place.list(config()))) == 4


def test_epochs_survive_a_deletion(place: Any) -> None:
    """A thread that is deleted and begun anew does not give an old run its lease back."""
    store(place, first("t", a=1))
    store(place, Batch("t", 1, release=True))
    place.delete_thread("t")
    epoch = place.load("t", "").epoch + 1
    assert epoch > 1
    store(place, first("t", epoch, a=2))
    with pytest.raises(LeaseLostError):
        store(place, Batch("t", 1, checkpoint=new(2, a=3)))


def test_a_run_may_delete_its_own_thread(place: Any) -> None:
    """The thread is empty afterwards, and the run goes on with it, whole values included."""
    begin = first("t", a=[LONG], b=1)
    store(place, begin)
    at = begin.checkpoint.checkpoint["id"]
    with holding("t"):
        place.delete_thread("t")
    assert place.load("t", "").tuple is None
    store(place, Batch("t", 1, checkpoint=new(2, at, changed={"b"}, a=[LONG], b=2)))
    assert values(place) == {"a": [LONG], "b": 2}


def test_a_run_goes_on_after_a_prune(place: Any) -> None:
    """Pruning under a run takes nothing away that its next checkpoint needs."""
    store(place, first("t", a=[LONG]))
    at = place.load("t", "").newest_id
    place.submit(Batch("t", 1, records=[record(at, a=["more " * 20])])).wait()
    following = new(2, at, a=[LONG, "more " * 20])
    place.submit(Batch("t", 1, checkpoint=following))
    place.prune(["t"])
    store(place, Batch("t", 1, checkpoint=new(3, following.checkpoint["id"], a=[LONG, "more " * 20, LONG])))
    assert values(place) == {"a": [LONG, "more " * 20, LONG]}
