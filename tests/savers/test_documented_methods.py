"""The documented methods do the same on every saver, sync and async."""

from __future__ import annotations

import asyncio
import threading
import uuid
from typing import Any

import pytest

from perdure.checkpoint.base import (
    BaseCheckpointSaver,
    copy_checkpoint,
    create_checkpoint,
    empty_checkpoint,
    get_checkpoint_id,
)
from perdure.errors import MissingThreadIdError, StoreFormatError, UnstorableError
from savers.makers import checkpoint, config

LONG = "long enough to lie in a row of its own " * 3


def put(calls: Any, where: Any = None, metadata: Any = None, version: Any = 1, **values: Any) -> Any:
    made = checkpoint(version, **values)
    return calls.put(where or config(), made, metadata or {}, made["channel_versions"])


def values_at(calls: Any, where: Any) -> Any:
    return calls.get_tuple(where).checkpoint["channel_values"]


# -- checkpoints ---------------------------------------------------------------------------------


def test_put_names_the_checkpoint(calls: Any) -> None:
    """`put` returns a config of exactly three keys."""
    made = checkpoint()
    where = calls.put(config(more=1), made, {}, {})
    assert where == config(checkpoint_id=made["id"])


def test_checkpoint_comes_back_whole(calls: Any) -> None:
    """Every key of a checkpoint comes back as it was put, unknown ones included."""
    made = checkpoint(a=None, b=[1, LONG], c={"k": LONG, "t": (1, 2)}, d="", e=[])
    made["v"] = 4
    made["versions_seen"] = {"__input__": {}, "node": {"a": 1}}
    made["updated_channels"] = ["a", "b"]
    made["pending_sends"] = [("old", {1, 2})]
    where = calls.put(config(), made, {}, {})
    assert calls.get(where) == made


@pytest.mark.parametrize("version", [3, 2.5, "00000000000000000000000000000003.0.4915"])
def test_versions_may_be_numbers_or_text(calls: Any, version: Any) -> None:
    """Versions come back as they were put."""
    where = put(calls, version=version, a=1)
    assert calls.get(where)["channel_versions"] == {"a": version}


def test_values_are_not_shared_with_the_program(calls: Any) -> None:
    """Changing a value after it was put, or one that was read, changes nothing that is stored."""
    value = [{"text": LONG}]
    where = put(calls, a=value)
    value[0]["text"] = "changed"
    values_at(calls, where)["a"].append("more")
    assert values_at(calls, where)["a"] == [{"text": LONG}]


def test_without_an_id_the_newest_is_read(calls: Any) -> None:
    """A config without checkpoint id, or with an empty one, means the newest."""
    put(calls, a=1)
    put(calls, a=2)
    assert values_at(calls, config()) == {"a": 2}
    assert values_at(calls, config(checkpoint_id="")) == {"a": 2}


def test_newest_is_what_was_stored_last(calls: Any) -> None:
    """Order hangs on the store's counter, not on ids that a clock made."""
    late, early = checkpoint(a="first"), checkpoint(a="second")
    late["id"], early["id"] = "f" * 8, "0" * 8
    calls.put(config(), late, {}, {})
    calls.put(config(), early, {}, {})
    assert values_at(calls, config()) == {"a": "second"}
    assert [each.checkpoint["id"] for each in calls.list(config())] == ["0" * 8, "f" * 8]


def test_unknown_threads_and_checkpoints_are_none(calls: Any) -> None:
    """Nothing is found where nothing is; reading leaves nothing behind."""
    put(calls)
    assert calls.get_tuple(config("other")) is None
    assert calls.get_tuple(config(checkpoint_id="nope")) is None
    assert calls.get_tuple(config(ns="child")) is None
    assert calls.get(config("other")) is None
    assert [each.config["configurable"]["thread_id"] for each in calls.list(None)] == ["t"]


def test_parent_is_the_checkpoint_of_the_config(calls: Any) -> None:
    """`put` under a config with a checkpoint id makes that one the parent."""
    first = put(calls, a=1)
    second = put(calls, first, a=2)
    assert calls.get_tuple(first).parent_config is None
    assert calls.get_tuple(second).parent_config == first


def test_parent_need_not_be_stored(calls: Any) -> None:
    """A parent that the store has never seen is kept by name."""
    where = put(calls, config(checkpoint_id="elsewhere"), a=1)
    assert calls.get_tuple(where).parent_config == config(checkpoint_id="elsewhere")


def test_namespaces_are_apart(calls: Any) -> None:
    """Each namespace of a thread has a newest checkpoint of its own."""
    put(calls, config(), a="root")
    put(calls, config(ns="child:1"), a="child")
    assert values_at(calls, config()) == {"a": "root"}
    assert values_at(calls, config(ns="child:1")) == {"a": "child"}


@pytest.mark.parametrize("thread_id", [7, "7", uuid.UUID(int=7), "with \0 zero", "\N{SNOWMAN}"])
def test_thread_ids_are_text(calls: Any, thread_id: Any) -> None:
    """A thread is known by the text of its id."""
    put(calls, config(thread_id), a=1)
    assert values_at(calls, config(str(thread_id))) == {"a": 1}


def test_what_was_left_out_is_the_parents(calls: Any) -> None:
    """A channel whose version did not change comes back although its value was not given again."""
    first = put(calls, a=LONG, b=1)
    made = checkpoint(b=2)
    made["channel_versions"] = {"a": 1, "b": 2}
    second = calls.put(first, made, {}, {"b": 2})
    assert values_at(calls, second) == {"a": LONG, "b": 2}


def test_a_channel_without_version_does_not_come_back(calls: Any) -> None:
    """A channel that was dropped stays dropped."""
    first = put(calls, a=LONG, b=1)
    second = put(calls, first, b=2)
    assert values_at(calls, second) == {"b": 2}


def test_an_emptied_channel_does_not_come_back(calls: Any) -> None:
    """A channel with a new version and no value is empty, not the parent's."""
    first = put(calls, a=LONG)
    made = checkpoint()
    made["channel_versions"] = {"a": 2}
    assert values_at(calls, calls.put(first, made, {}, {"a": 2})) == {}


def test_put_again_replaces(calls: Any) -> None:
    """A second put of an id replaces values, metadata and parent; the order stays."""
    made = checkpoint(a=LONG)
    where = calls.put(config(), made, {"n": 1}, {})
    put(calls, where, a="newest")
    made["channel_values"] = {"a": LONG + "changed"}
    calls.put(config(checkpoint_id="p"), made, {"n": 2}, {})
    found = calls.get_tuple(where)
    assert found.checkpoint["channel_values"] == {"a": LONG + "changed"}
    assert (found.metadata, found.parent_config) == ({"n": 2}, config(checkpoint_id="p"))
    assert values_at(calls, config()) == {"a": "newest"}


def test_versions_count_from_one(calls: Any) -> None:
    """Versions are ints; text of other savers is counted on from."""
    following = [calls.get_next_version(each, None) for each in (None, 1, 7.5, "00000003.0.4915")]
    assert following == [1, 2, 8, 4]


# -- metadata ------------------------------------------------------------------------------------


def test_metadata_comes_back(calls: Any) -> None:
    """Metadata is kept as given, nested values too."""
    given = {"source": "loop", "step": 3, "parents": {"": "x"}, "run_id": "r", "counters": [1, 2]}
    assert calls.get_tuple(put(calls, metadata=given)).metadata == given


def test_config_adds_to_metadata(calls: Any) -> None:
    """Plain values of the config become metadata, first the argument's, then `metadata`'s."""
    where = config(user="u1", n=1, obj=object(), __hidden=1, langgraph_step=4)
    where["metadata"] = {"n": 2, "m": True, "step": 9}
    calls.put(where, checkpoint(), {"step": 1, "text": "a\0b"}, {})
    expected = {"step": 1, "text": "ab", "n": 2, "m": True, "user": "u1"}
    assert calls.get_tuple(config()).metadata == expected


@pytest.mark.parametrize("name", ["openai_api_key", "accessToken", "SECRET", "db_password", "auth"])
def test_secrets_stay_out_of_metadata(calls: Any, name: str) -> None:
    """What looks like a credential in a config is not stored."""
    calls.put(config(**{name: "hush", "author": "me"}), checkpoint(), {}, {})
    assert calls.get_tuple(config()).metadata == {"author": "me"}


# -- writes --------------------------------------------------------------------------------------


def writes_at(calls: Any, where: Any) -> Any:
    return calls.get_tuple(where).pending_writes


def test_writes_lie_beside_their_checkpoint(calls: Any) -> None:
    """Writes come back as (task id, channel, value); the next checkpoint starts without."""
    where = put(calls)
    assert writes_at(calls, where) == []
    calls.put_writes(where, [("a", LONG), ("a", None)], "task")
    assert writes_at(calls, where) == [("task", "a", LONG), ("task", "a", None)]
    assert writes_at(calls, put(calls, where)) == []


def test_writes_come_in_the_order_of_paths(calls: Any) -> None:
    """Order is (path, task id, index), whatever came first."""
    where = put(calls)
    calls.put_writes(where, [("x", 1)], "b", "~2")
    calls.put_writes(where, [("x", 2)], "a", "~2")
    calls.put_writes(where, [("x", 3), ("y", 4)], "z", "~1")
    calls.put_writes(where, [("x", 5)], "input")
    assert [value for _, _, value in writes_at(calls, where)] == [5, 3, 4, 2, 1]


def test_the_first_write_of_an_index_stays(calls: Any) -> None:
    """A call that is sent again adds only what is new in it."""
    where = put(calls)
    calls.put_writes(where, [("a", 1), ("b", 2)], "task")
    calls.put_writes(where, [("a", 9), ("b", 9), ("c", 3)], "task")
    assert writes_at(calls, where) == [("task", "a", 1), ("task", "b", 2), ("task", "c", 3)]


@pytest.mark.parametrize("channel", ["__error__", "__interrupt__", "__resume__", "__scheduled__"])
def test_special_writes_replace_each_other(calls: Any, channel: str) -> None:
    """Of a special channel the last write stays, also when it stands among ordinary ones."""
    where = put(calls)
    calls.put_writes(where, [(channel, "old"), (channel, "newer")], "task")
    calls.put_writes(where, [("a", 1), (channel, "new")], "task")
    assert writes_at(calls, where) == [("task", channel, "new"), ("task", "a", 1)]


def test_errors_show_as_text(calls: Any) -> None:
    """A recorded error is shown as its repr."""
    where = put(calls)
    calls.put_writes(where, [("__error__", ValueError("no"))], "task")
    assert writes_at(calls, where) == [("task", "__error__", "ValueError('no')")]


def test_writes_may_come_before_their_checkpoint(calls: Any) -> None:
    """Writes for a checkpoint that is not stored yet wait for it."""
    made = checkpoint(a=LONG)
    where = config(checkpoint_id=made["id"])
    calls.put_writes(where, [("a", LONG)], "task")
    assert calls.get_tuple(where) is None
    calls.put(config(), made, {}, {})
    assert writes_at(calls, where) == [("task", "a", LONG)]


def test_no_writes_are_no_error(calls: Any) -> None:
    """An empty list stores nothing."""
    where = put(calls)
    calls.put_writes(where, [], "task")
    assert writes_at(calls, where) == []


def test_writes_keep_to_their_namespace(calls: Any) -> None:
    """The same checkpoint id in another namespace has writes of its own."""
    made = checkpoint()
    for ns in ("", "child"):
        calls.put(config(ns=ns), made, {}, {})
        calls.put_writes(config(ns=ns, checkpoint_id=made["id"]), [("a", ns)], "task")
    assert writes_at(calls, config(ns="child")) == [("task", "a", "child")]


def test_what_cannot_be_stored_stores_nothing(calls: Any) -> None:
    """An unstorable value fails with its place in the value, and the rest of the call with it."""
    where = put(calls)
    with pytest.raises(UnstorableError, match=r"\[1\]\['lock'\]"):
        calls.put_writes(where, [("a", LONG), ("b", [LONG, {"lock": threading.Lock()}])], "task")
    assert writes_at(calls, where) == []
    calls.put_writes(where, [("a", LONG)], "task")
    assert writes_at(calls, where) == [("task", "a", LONG)]


# -- list ----------------------------------------------------------------------------------------


def numbers(found: Any) -> list[int]:
    return [each.metadata["n"] for each in found]


def history(calls: Any, count: int = 5) -> list[Any]:
    where, stored = config(), []
    for n in range(count):
        where = put(calls, where, {"n": n, "odd": bool(n % 2)}, a=[LONG] * n)
        stored.append(where)
    return stored


def test_list_is_newest_first(calls: Any) -> None:
    """Checkpoints come newest first, over all namespaces when none is named."""
    put(calls, config(ns="child"), {"n": 10})
    history(calls, 40)
    put(calls, config(ns="child"), {"n": 11})
    assert numbers(calls.list({"configurable": {"thread_id": "t"}})) == [11, *reversed(range(40)), 10]
    assert numbers(calls.list(config())) == [*reversed(range(40))]


def test_list_shows_whole_tuples(calls: Any) -> None:
    """What is listed is what `get_tuple` gives, writes included."""
    stored = history(calls)
    calls.put_writes(stored[2], [("a", LONG)], "task")
    assert calls.list(config()) == [calls.get_tuple(where) for where in reversed(stored)]


def test_list_of_all_threads(calls: Any) -> None:
    """Without a config all threads are listed, newest first."""
    for n, name in enumerate("abcab"):
        put(calls, config(name), {"n": n})
    assert numbers(calls.list(None)) == [4, 3, 2, 1, 0]


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (3, 3), (99, 5), (None, 5)])
def test_limit_counts_what_is_listed(calls: Any, limit: int | None, count: int) -> None:
    """`limit` is the greatest number of checkpoints."""
    history(calls)
    assert len(calls.list(config(), limit=limit)) == count


def test_limit_counts_after_the_filter(calls: Any) -> None:
    """Checkpoints that the filter drops do not count."""
    history(calls)
    assert numbers(calls.list(config(), filter={"odd": False}, limit=2)) == [4, 2]


def test_negative_limit_is_refused(calls: Any) -> None:
    """A limit below 0 is a mistake, said at once."""
    with pytest.raises(ValueError, match="limit is -1"):
        calls.list(config(), limit=-1)


def test_before_means_older(calls: Any) -> None:
    """`before` leaves out the named checkpoint and all newer ones; without an id it is ignored."""
    stored = history(calls)
    assert numbers(calls.list(config(), before=stored[2])) == [1, 0]
    assert numbers(calls.list(config(), before=stored[2], limit=1)) == [1]
    assert len(calls.list(config(), before=config())) == 5


def test_list_of_one_checkpoint(calls: Any) -> None:
    """A config with a checkpoint id lists that one."""
    stored = history(calls)
    assert numbers(calls.list(stored[3])) == [3]


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ({"s": "x"}, True),
        ({"s": "x", "n": 1}, True),
        ({"s": "x", "n": 2}, False),
        ({"missing": None}, True),
        ({"missing": 1}, False),
        ({"null": None}, True),
        ({"flag": True}, True),
        ({"flag": 1}, False),
        ({"n": True}, False),
        ({"n": 1.0}, True),
        ({"list": [1, 2]}, True),
        ({"list": [1]}, False),
        ({"list": [True, 2]}, False),
        ({"nest": {"a": 1, "b": [2]}}, True),
        ({"nest": {"a": 1}}, False),
        ({"nest.a": 1}, False),
        ({"dotted.key": 5}, True),
        ({"quote'\" -- ": 6}, True),
        ({"thread_id": "t"}, False),
    ],
)
def test_filter_is_equality_of_json(calls: Any, filter: dict[str, Any], found: bool) -> None:
    """Every key must equal the metadata's value exactly; a missing key counts as None."""
    metadata = {
        "s": "x", "n": 1, "null": None, "flag": True, "list": [1, 2], "nest": {"a": 1, "b": [2]},
        "dotted.key": 5, "quote'\" -- ": 6,
    }  # fmt: skip
    put(calls, metadata=metadata)
    assert bool(calls.list(config(), filter=filter)) is found


def test_other_calls_may_be_made_while_listing(place: Any) -> None:
    """An open `list` holds no lock: the loop may read, write and delete."""
    stored = history_of(place, 40)
    seen = 0
    for found in place.list(config()):
        seen += 1
        place.put_writes(found.config, [("a", 1)], "task")
        assert place.get_tuple(found.config) is not None
        if seen == 3:
            place.delete_thread("other")
    assert seen == len(stored)


def test_other_calls_may_be_made_while_listing_async(place: Any) -> None:
    """The same for `alist`."""
    history_of(place, 40)

    async def run() -> int:
        seen = 0
        async for found in place.alist(config()):
            await place.aput_writes(found.config, [("a", 1)], "task")
            seen += 1
        return seen

    assert asyncio.run(run()) == 40


def history_of(saver: Any, count: int) -> list[Any]:
    where, stored = config(), []
    for n in range(count):
        where = saver.put(where, checkpoint(a=[LONG] * n), {"n": n}, {"a": 1})
        stored.append(where)
    return stored


# -- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [{}, {"configurable": {}}, {"configurable": {"checkpoint_ns": ""}}])
def test_a_missing_thread_id_is_named(calls: Any, where: Any) -> None:
    """Every method says that `thread_id` is missing."""
    for call in (
        lambda: calls.get_tuple(where),
        lambda: calls.list(where),
        lambda: calls.put(where, checkpoint(), {}, {}),
        lambda: calls.put_writes(where, [("a", 1)], "task"),
    ):
        with pytest.raises(MissingThreadIdError, match="thread_id"):
            call()


def test_writes_need_a_checkpoint(calls: Any) -> None:
    """`put_writes` says that `checkpoint_id` is missing."""
    with pytest.raises(ValueError, match="checkpoint_id"):
        calls.put_writes(config(), [("a", 1)], "task")


# -- maintenance ---------------------------------------------------------------------------------


def shown(calls: Any, name: str) -> list[Any]:
    """All that can be read of a thread, without its name."""
    found = calls.list({"configurable": {"thread_id": name}})
    return [
        (
            each.config["configurable"]["checkpoint_ns"],
            each.checkpoint,
            each.metadata,
            each.parent_config and each.parent_config["configurable"]["checkpoint_id"],
            each.pending_writes,
        )
        for each in found
    ]


def fill(calls: Any, name: str, count: int = 4) -> list[Any]:
    where, child, stored = config(name), config(name, "child"), []
    messages: list[Any] = []
    for n in range(count):
        messages = [*messages, {"id": n, "text": LONG * 3}]
        where = put(calls, where, {"run_id": f"run{n % 2}"}, messages=messages, same=LONG * 20)
        calls.put_writes(where, [("messages", [{"id": n + 1, "text": LONG * 3}])], f"task{n}")
        child = put(calls, child, {"run_id": f"run{n % 2}"}, a=n)
        stored += [where, child]
    return stored


def test_delete_thread_removes_everything(calls: Any) -> None:
    """Nothing of the thread is left in any namespace; others keep all."""
    fill(calls, "gone"), fill(calls, "kept")
    before = shown(calls, "kept")
    calls.delete_thread("gone")
    assert (shown(calls, "gone"), shown(calls, "kept")) == ([], before)
    assert calls.get_tuple(config("gone")) is None


def test_delete_thread_of_nobody(calls: Any) -> None:
    """Deleting an unknown thread is no error, also as the first call ever."""
    calls.delete_thread("nobody")


def test_a_deleted_thread_can_begin_anew(calls: Any) -> None:
    """What is put after a deletion stands on its own."""
    stored = fill(calls, "t")
    calls.delete_thread("t")
    assert values_at(calls, put(calls, stored[-2], messages=[LONG])) == {"messages": [LONG]}
    assert len(shown(calls, "t")) == 1


def test_delete_for_runs(calls: Any) -> None:
    """The checkpoints of these runs go with their writes, in all threads and namespaces."""
    fill(calls, "a"), fill(calls, "b")
    left = [[each for each in shown(calls, name) if each[2]["run_id"] == "run1"] for name in "ab"]
    calls.delete_for_runs(["run0", "unknown"])
    assert [shown(calls, name) for name in "ab"] == left
    calls.delete_for_runs([])
    assert [shown(calls, name) for name in "ab"] == left


def test_copy_thread(calls: Any) -> None:
    """The copy has all namespaces, ids, parents, metadata, values and writes; they live apart."""
    fill(calls, "a")
    original = shown(calls, "a")
    calls.copy_thread("a", "b")
    assert shown(calls, "b") == original
    calls.delete_thread("a")
    assert shown(calls, "b") == original


def test_copy_replaces_the_target(calls: Any) -> None:
    """What the target held is gone; a copy onto itself changes nothing."""
    fill(calls, "a"), fill(calls, "b", 2)
    calls.copy_thread("a", "b")
    calls.copy_thread("a", "a")
    assert shown(calls, "b") == shown(calls, "a")


def test_copy_of_nobody(calls: Any) -> None:
    """Copying an unknown thread does nothing."""
    fill(calls, "b", 1)
    calls.copy_thread("nobody", "b")
    assert len(shown(calls, "b")) == 2


def test_prune_keeps_the_newest(calls: Any) -> None:
    """One checkpoint stays in each namespace, whole, with its writes; other threads keep all."""
    fill(calls, "a"), fill(calls, "b")
    newest, others = shown(calls, "a")[:2], shown(calls, "b")
    calls.prune(["a", "unknown"])
    assert (shown(calls, "a"), shown(calls, "b")) == (newest, others)


def test_a_pruned_thread_goes_on(calls: Any) -> None:
    """What is stored after pruning does not lean on what was removed."""
    stored = fill(calls, "t")
    calls.prune(["t"], strategy="keep_latest")
    messages = values_at(calls, config("t"))["messages"]
    where = put(calls, stored[-2], messages=[*messages, "new"], same=LONG * 20)
    assert values_at(calls, where) == {"messages": [*messages, "new"], "same": LONG * 20}


def test_prune_can_delete(calls: Any) -> None:
    """`delete` leaves nothing."""
    fill(calls, "a")
    calls.prune(["a"], strategy="delete")
    assert shown(calls, "a") == []


def test_prune_keeps_what_delta_channels_need(calls: Any) -> None:
    """Checkpoints back to the nearest stored value stay where a channel is rebuilt from them."""
    where = put(calls, metadata={"n": 0})
    where = put(calls, where, {"n": 1}, d=["seed"])
    for n in (2, 3):
        where = put(calls, where, {"n": n, "counters_since_delta_snapshot": {"d": [n, n]}})
    calls.prune(["t"])
    assert numbers(calls.list(config())) == [3, 2, 1]


def test_prune_says_what_it_does_not_know(calls: Any) -> None:
    """A text in place of a list and an unknown strategy are refused."""
    with pytest.raises(TypeError, match="list of thread ids"):
        calls.prune("t")
    with pytest.raises(ValueError, match="keep_latest"):
        calls.prune(["t"], strategy="some")


# -- delta channels ------------------------------------------------------------------------------


def delta(calls: Any, where: Any, *names: str) -> Any:
    return calls.get_delta_channel_history(config=where, channels=list(names))


def test_delta_history_goes_back_to_the_nearest_value(calls: Any) -> None:
    """Writes of ancestors come oldest first, from the seed's own on; the target's are left out."""
    first = put(calls, d="too old", e="far")
    calls.put_writes(first, [("d", 0), ("e", 1)], "t0")
    second = put(calls, first, d="seed")
    calls.put_writes(second, [("d", 1), ("other", 2)], "t1", "~2")
    calls.put_writes(second, [("d", 2)], "t2", "~1")
    third = put(calls, second)
    calls.put_writes(third, [("d", 3)], "t3")
    target = put(calls, third)
    calls.put_writes(target, [("d", 4)], "t4")
    found = delta(calls, target, "d", "e", "unknown")
    assert found["d"] == {"seed": "seed", "writes": [("t2", "d", 2), ("t1", "d", 1), ("t3", "d", 3)]}
    assert found["e"] == {"seed": "far", "writes": [("t0", "e", 1)]}
    assert found["unknown"] == {"writes": []}
    assert delta(calls, config(), "d") == {"d": found["d"]}


def test_delta_history_of_nothing(calls: Any) -> None:
    """No channels give nothing; an unknown thread gives empty histories."""
    assert delta(calls, config()) == {}
    assert delta(calls, config("unknown"), "d") == {"d": {"writes": []}}


def test_a_broken_delta_chain_is_an_error(calls: Any) -> None:
    """Where ancestors that a channel is rebuilt from were removed, it does not come back empty."""
    first = put(calls, metadata={"run_id": "r"}, d="seed")
    target = put(calls, first, {"counters_since_delta_snapshot": {"d": [1, 1]}})
    calls.delete_for_runs(["r"])
    with pytest.raises(StoreFormatError, match="history of channel 'd'"):
        delta(calls, target, "d")


def test_base_class_walks_by_tuples(place: Any) -> None:
    """A saver that has only `get_tuple` gets the same histories from the base class."""
    first = put(place, d="seed")
    place.put_writes(first, [("d", 1), ("d", 2)], "t")
    target = put(place, put(place, first))
    expected = place.get_delta_channel_history(config=target, channels=["d", "e"])
    assert (
        BaseCheckpointSaver.get_delta_channel_history(place, config=target, channels=["d", "e"]) == expected
    )


# -- small tools ---------------------------------------------------------------------------------


def test_copies_of_checkpoints_can_be_changed() -> None:
    """`copy_checkpoint` shares values, not containers."""
    made = checkpoint(a=1)
    copy = copy_checkpoint(made)
    copy["channel_values"]["b"] = copy["channel_versions"]["b"] = 2
    assert made["channel_values"] == {"a": 1}
    assert made["channel_versions"] == {"a": 1}


def test_created_checkpoints_follow_each_other() -> None:
    """`create_checkpoint` makes a later id and keeps what it is not given."""
    first = create_checkpoint(empty_checkpoint(), None, -1)
    second = create_checkpoint(first, None, 0, updated_channels={"b", "a"})
    assert second["id"] > first["id"]
    assert second["updated_channels"] == ["a", "b"]
    assert create_checkpoint(first, None, 0, id="given")["id"] == "given"


def test_checkpoint_id_of_a_config() -> None:
    """A missing and an empty id are None."""
    assert get_checkpoint_id(config()) is None
    assert get_checkpoint_id(config(checkpoint_id="")) is None
    assert get_checkpoint_id(config(checkpoint_id="x")) == "x"
