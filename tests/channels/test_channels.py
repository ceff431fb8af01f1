"""What each kind of channel makes of a superstep's writes."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence, Set
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.channels import (
    AnyValue,
    BaseChannel,
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
    UntrackedValue,
)
from perdure.errors import EmptyChannelError, InvalidUpdateError
from perdure.types import Overwrite
from perdure.typing import MISSING

Channel = BaseChannel[Any, Any, Any]


def concat(state: list[int] | None, writes: Sequence[list[int]]) -> list[int]:
    return [*(state or []), *(item for write in writes for item in write)]


PROTOTYPES: dict[str, Channel] = {
    "last": LastValue(int),
    "last_after": LastValueAfterFinish(int),
    "any": AnyValue(int),
    "ephemeral": EphemeralValue(int, guard=False),
    "untracked": UntrackedValue(int, guard=False),
    "topic": Topic(int),
    "topic_all": Topic(int, accumulate=True),
    "sum": BinaryOperatorAggregate(int, operator.add),
    "delta": DeltaChannel(concat, list),
    "barrier": NamedBarrierValue(str, {"a", "b"}),
    "barrier_after": NamedBarrierValueAfterFinish(str, {"a", "b"}),
}


def fresh(prototype: Channel) -> Channel:
    prototype.key = "k"
    return prototype.from_checkpoint(MISSING)


def value(channel: Channel) -> Any:
    return channel.get() if channel.is_available() else MISSING


# -- what all have in common


@pytest.mark.parametrize("name", PROTOTYPES)
def test_a_new_channel_keeps_its_key(name: str) -> None:
    """Errors of a run's channels name the key, as the prototype was given it."""
    assert fresh(PROTOTYPES[name]).key == "k"


@pytest.mark.parametrize("name", sorted(set(PROTOTYPES) - {"sum", "delta"}))
def test_an_empty_channel(name: str) -> None:
    """Before the first write there is no value and nothing to store."""
    channel = fresh(PROTOTYPES[name])
    assert not channel.is_available()
    assert channel.checkpoint() is MISSING
    with pytest.raises(EmptyChannelError):
        channel.get()


WRITES: dict[str, list[Any]] = {"barrier": ["a", "b"], "barrier_after": ["a", "b"], "delta": [[1], [2]]}
steps = st.lists(st.sampled_from(["update", "silence", "consume", "finish"]), max_size=8)


def play(channel: Channel, name: str, step: str) -> Any:
    if step == "update":
        return channel.update(WRITES.get(name, [7]))
    return channel.update([]) if step == "silence" else getattr(channel, step)()


@pytest.mark.parametrize("name", PROTOTYPES)
@given(steps=steps)
def test_is_available_says_whether_get_answers(name: str, steps: list[str]) -> None:
    """Whatever happened to a channel, `get` and `is_available` agree."""
    channel = fresh(PROTOTYPES[name])
    for step in steps:
        play(channel, name, step)
    try:
        channel.get()
    except EmptyChannelError:
        assert not channel.is_available()
    else:
        assert channel.is_available()


@pytest.mark.parametrize("name", sorted(set(PROTOTYPES) - {"untracked"}))
@given(before=steps, after=steps)
def test_a_stored_channel_goes_on_as_the_one_that_was_stored(
    name: str, before: list[str], after: list[str]
) -> None:
    """A channel made from a checkpoint behaves as the original would have."""
    original = fresh(PROTOTYPES[name])
    for step in before:
        play(original, name, step)
    restored = PROTOTYPES[name].from_checkpoint(original.checkpoint())
    for step in after:
        assert play(original, name, step) == play(restored, name, step)
        assert value(original) == value(restored)


@pytest.mark.parametrize("name", PROTOTYPES)
@given(before=steps, after=steps)
def test_a_copy_is_independent(name: str, before: list[str], after: list[str]) -> None:
    """What happens to a channel does not show in a copy of it."""
    original = fresh(PROTOTYPES[name])
    for step in before:
        play(original, name, step)
    copy = original.copy()
    seen = value(copy)
    assert seen == value(original)
    for step in after:
        play(original, name, step)
    assert value(copy) == seen


@pytest.mark.parametrize("name", PROTOTYPES)
@given(steps=steps)
def test_silence_is_only_heard_where_it_is_said_to_be(name: str, steps: list[str]) -> None:
    """A channel that does not react to silence is not changed by an empty update."""
    channel = fresh(PROTOTYPES[name])
    for step in steps:
        play(channel, name, step)
    before = value(channel)
    changed = channel.update([])
    assert changed or value(channel) == before
    if not type(channel).reacts_to_silence:
        assert not changed


@pytest.mark.parametrize("name", PROTOTYPES)
@given(steps=steps)
def test_news_are_told(name: str, steps: list[str]) -> None:
    """A channel whose value changed says so."""
    channel = fresh(PROTOTYPES[name])
    for step in steps:
        before = value(channel)
        if not play(channel, name, step):
            assert value(channel) == before


# -- single values


def kind_of(channel: Channel) -> str:
    return type(channel).__name__


@pytest.mark.parametrize("channel", [LastValue(int), EphemeralValue(int), UntrackedValue(int)], ids=kind_of)
def test_two_values_in_one_superstep(channel: Channel) -> None:
    """Where one value fits, two are an error with key and code; the channel is as before."""
    channel.key = "k"
    channel.update([1])
    with pytest.raises(InvalidUpdateError, match="At key 'k': Can receive only one value per step") as raised:
        channel.update([2, 3])
    assert str(raised.value).endswith("INVALID_CONCURRENT_GRAPH_UPDATE")
    assert channel.get() == 1


@pytest.mark.parametrize(
    "channel",
    [
        AnyValue(int),
        EphemeralValue(int, guard=False),
        UntrackedValue(int, guard=False),
        LastValueAfterFinish(int),
    ],
    ids=kind_of,
)
def test_the_last_value_counts(channel: Channel) -> None:
    """Without a guard the last of several values stays."""
    channel.update([1, 2])
    channel.finish()
    assert channel.get() == 2


@pytest.mark.parametrize("channel", [AnyValue(int), EphemeralValue(int)], ids=kind_of)
def test_values_that_last_one_superstep(channel: Channel) -> None:
    """A superstep without a write ends the value."""
    channel.update([1])
    assert channel.update([])
    assert not channel.is_available()
    assert not channel.update([])


@pytest.mark.parametrize("channel", [LastValue(int), UntrackedValue(int)], ids=kind_of)
def test_values_that_stay(channel: Channel) -> None:
    """A superstep without a write changes nothing."""
    channel.update([1])
    assert not channel.update([])
    assert channel.get() == 1


def test_none_is_a_value() -> None:
    """None that was written is not the same as nothing."""
    channel = LastValue(int)
    assert channel.update([None])  # type: ignore[list-item]
    assert channel.get() is None
    assert channel.from_checkpoint(None).is_available()


def test_untracked_values_are_not_stored() -> None:
    """The value lives in the run alone, but goes along with a copy."""
    channel = UntrackedValue(int)
    channel.update([1])
    assert channel.checkpoint() is MISSING
    assert channel.copy().get() == 1
    assert not channel.from_checkpoint(5).is_available()


OVERWRITES = [Overwrite(5), {"__overwrite__": 5}, {"type": "__overwrite__", "value": 5}]


@pytest.mark.parametrize("write", OVERWRITES, ids=repr)
@pytest.mark.parametrize(
    "channel",
    [LastValue(int), AnyValue(int), UntrackedValue(int)],
    ids=kind_of,
)
def test_overwrite_of_a_plain_key(channel: Channel, write: Any) -> None:
    """A key without reducer gets the value inside, not the wrapper."""
    channel.update([write])
    assert channel.get() == 5


def test_inputs_may_look_like_an_overwrite() -> None:
    """A dict given as input arrives as it is; an Overwrite is unwrapped."""
    channel: EphemeralValue[Any] = EphemeralValue(dict)
    channel.update([{"__overwrite__": 5}])
    assert channel.get() == {"__overwrite__": 5}
    channel.update([Overwrite(5)])
    assert channel.get() == 5


@pytest.mark.parametrize("write", [{}, {"__overwrite__": 1, "more": 2}, {"type": "x", "value": 1}], ids=repr)
def test_other_dicts_are_values(write: dict[str, Any]) -> None:
    """Only the documented forms replace; other dicts are written as they are."""
    channel: LastValue[Any] = LastValue(dict)
    channel.update([write])
    assert channel.get() is write


# -- deferred triggers


def test_a_deferred_value_waits_for_the_end_of_the_run() -> None:
    """The value appears when the run is about to end, is used once, and can be written again."""
    channel: LastValueAfterFinish[int] = LastValueAfterFinish(int)
    channel.update([1])
    assert (channel.is_available(), channel.consume()) == (False, False)
    assert (channel.finish(), channel.finish()) == (True, False)
    assert channel.get() == 1
    assert (channel.consume(), channel.consume()) == (True, False)
    assert not channel.is_available()


def test_a_new_write_defers_again() -> None:
    """A value written after the end was near waits for the next end."""
    channel: LastValueAfterFinish[int] = LastValueAfterFinish(int)
    channel.update([1])
    channel.finish()
    channel.update([2])
    assert not channel.is_available()


# -- topics


def test_a_topic_holds_what_was_written_last() -> None:
    """Lists count as their elements; the next superstep starts anew."""
    topic: Topic[Any] = Topic(str)
    assert topic.update(["a", ["b", ["c"]]])
    assert topic.get() == ["a", "b", ["c"]]
    assert topic.update([])
    assert not topic.is_available()
    assert not topic.update([[]])


def test_an_accumulating_topic_grows() -> None:
    """Elements of earlier supersteps stay in front."""
    topic: Topic[str] = Topic(str, accumulate=True)
    topic.update(["a"])
    assert not topic.update([])
    topic.update(["b"])
    assert topic.get() == ["a", "b"]


def test_old_topic_data() -> None:
    """Data of the time when topics stored what they had seen, too, can be read."""
    assert Topic(str).from_checkpoint(({"a"}, ["a", "b"])).get() == ["a", "b"]


def test_what_a_topic_gives_is_a_copy() -> None:
    """Changing what was read does not change the channel."""
    topic: Topic[int] = Topic(int)
    topic.update([1])
    list_: Any = topic.get()
    list_.append(2)
    assert topic.get() == [1]


def test_topic_types() -> None:
    """A topic of a type is read as a sequence of it and written one or many."""
    assert Topic(int).ValueType == Sequence[int]
    assert Topic(int).UpdateType == int | list[int]


# -- reducers


@given(writes=st.lists(st.lists(st.lists(st.integers(), max_size=3), max_size=4), max_size=6))
def test_writes_are_folded_in_order(writes: list[list[list[int]]]) -> None:
    """However writes are spread over supersteps, the value is their concatenation."""
    folded = fresh(BinaryOperatorAggregate(list, operator.add))
    at_once = fresh(DeltaChannel(concat, list))
    for step in writes:
        folded.update(step)
        at_once.update(step)
    assert folded.get() == at_once.get() == [item for step in writes for write in step for item in write]


@pytest.mark.parametrize(
    "channel", [BinaryOperatorAggregate(list, operator.add), DeltaChannel(concat, list)], ids=kind_of
)
@pytest.mark.parametrize("wrap", [Overwrite, lambda v: {"__overwrite__": v}], ids=["object", "dict"])
@given(before=st.lists(st.lists(st.integers())), after=st.lists(st.lists(st.integers())))
def test_overwrite_wins_over_its_superstep(channel: Channel, wrap: Any, before: Any, after: Any) -> None:
    """Whatever else is written in that superstep, and wherever, the value is the one given."""
    channel = fresh(channel)
    channel.update([[0]])
    channel.update([*before, wrap([9]), *after])
    assert channel.get() == [9]


@pytest.mark.parametrize(
    "channel", [BinaryOperatorAggregate(list, operator.add), DeltaChannel(concat, list)], ids=kind_of
)
def test_two_overwrites(channel: Channel) -> None:
    """Two replacements in one superstep are an error with key and code; the value stays."""
    channel = fresh(channel)
    channel.update([[1]])
    with pytest.raises(
        InvalidUpdateError, match="At key 'k': Can receive only one Overwrite value"
    ) as raised:
        channel.update([Overwrite([2]), [3], {"__overwrite__": [4]}])
    assert str(raised.value).endswith("INVALID_CONCURRENT_GRAPH_UPDATE")
    assert channel.get() == [1]


def test_overwrite_of_an_empty_channel() -> None:
    """The first write may be a replacement; the value inside is kept."""
    channel = fresh(BinaryOperatorAggregate(int | None, operator.add))
    channel.update([Overwrite(5)])
    assert channel.get() == 5


def test_overwrite_by_missing_values_own_kind() -> None:
    """None is a value to put in place."""
    channel = fresh(BinaryOperatorAggregate(list, operator.add))
    channel.update([Overwrite(None)])
    assert channel.get() is None


def test_a_reducer_that_raises_changes_nothing() -> None:
    """The value of a failed fold is the one from before."""
    channel = fresh(BinaryOperatorAggregate(int, operator.add))
    channel.update([1])
    with pytest.raises(TypeError):
        channel.update([2, "x"])
    assert channel.get() == 1


@pytest.mark.parametrize(
    ("typ", "empty"),
    [
        (list, []),
        (list[int], []),
        (int, 0),
        (str, ""),
        (Sequence[int], []),
        (Set, set()),
        (Mapping[str, int], {}),
    ],
)
def test_empty_values(typ: Any, empty: Any) -> None:
    """A key whose type can be made from nothing holds that from the start."""
    assert fresh(BinaryOperatorAggregate(typ, operator.add)).get() == empty


def test_empty_values_are_not_shared() -> None:
    """Each run gets an empty list of its own."""
    prototype: Channel = BinaryOperatorAggregate(list, operator.add)
    assert fresh(prototype).get() is not fresh(prototype).get()


@pytest.mark.parametrize("typ", [None, int | None, Any])
def test_the_first_write_is_taken_as_it_is(typ: Any) -> None:
    """Without an empty value the first write starts the fold."""
    channel = fresh(BinaryOperatorAggregate(typ, operator.add))
    assert not channel.is_available()
    channel.update([5, 6])
    assert channel.get() == 11


@pytest.mark.parametrize("frequency", [0, -1, 1.5, None])
def test_snapshot_frequency(frequency: Any) -> None:
    """Snapshots are counted in whole updates."""
    with pytest.raises(ValueError, match="snapshot_frequency must be a positive int"):
        DeltaChannel(concat, snapshot_frequency=frequency)


def test_a_delta_channel_is_a_list_unless_said_otherwise() -> None:
    """Without a type the value starts as an empty list."""
    assert fresh(DeltaChannel(concat)).get() == []


# -- joins


@given(st.lists(st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3), max_size=8))
def test_a_join_fires_when_all_were_seen_since_it_last_fired(supersteps: list[list[str]]) -> None:
    """However many supersteps lie between them, each name must come once more after firing."""
    barrier = fresh(NamedBarrierValue(str, {"a", "b"}))
    seen: set[str] = set()
    for names in supersteps:
        changed = not set(names) <= seen
        assert barrier.update(names) is changed
        seen.update(names)
        assert barrier.is_available() == (seen == {"a", "b"})
        if barrier.consume():
            seen = set()


def test_a_join_gives_none() -> None:
    """What a join says is that it fired."""
    barrier = fresh(NamedBarrierValue(str, {"a"}))
    barrier.update(["a"])
    assert barrier.get() is None


def test_a_join_knows_its_names() -> None:
    """A name that nobody waits for is an error which lists those that are."""
    barrier = fresh(NamedBarrierValue(str, {"a", "b"}))
    with pytest.raises(InvalidUpdateError, match=r"At key 'k': Value 'c' not in \{'a', 'b'\}"):
        barrier.update(["a", "c"])
    assert barrier.update(["a"])


def test_a_deferred_join_waits_for_the_end_of_the_run() -> None:
    """All names and the end of the run are needed, in that order."""
    barrier = fresh(NamedBarrierValueAfterFinish(str, {"a", "b"}))
    barrier.update(["a"])
    assert not barrier.finish()
    barrier.update(["b"])
    assert not barrier.is_available()
    assert barrier.finish()
    assert barrier.is_available()
    assert barrier.consume()
    assert not barrier.is_available()


# -- equality


def minus(one: int, other: int) -> int:
    return one - other


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (LastValue(int), LastValue(str), True),
        (LastValue(int), AnyValue(int), False),
        (AnyValue(int), AnyValue(str), True),
        (EphemeralValue(int), EphemeralValue(str), True),
        (EphemeralValue(int), EphemeralValue(int, False), False),
        (EphemeralValue(int), UntrackedValue(int), False),
        (Topic(int), Topic(str), True),
        (Topic(int), Topic(int, True), False),
        (BinaryOperatorAggregate(int, minus), BinaryOperatorAggregate(int, minus), True),
        (BinaryOperatorAggregate(int, minus), BinaryOperatorAggregate(int, operator.add), False),
        (BinaryOperatorAggregate(int, lambda a, b: a), BinaryOperatorAggregate(int, lambda a, b: b), True),
        (NamedBarrierValue(str, {"a"}), NamedBarrierValue(str, {"a"}), True),
        (NamedBarrierValue(str, {"a"}), NamedBarrierValue(str, {"b"}), False),
        (NamedBarrierValue(str, {"a"}), NamedBarrierValueAfterFinish(str, {"a"}), False),
        (LastValueAfterFinish(int), LastValueAfterFinish(int), True),
        (DeltaChannel(concat), DeltaChannel(concat), True),
        (DeltaChannel(concat), DeltaChannel(concat, snapshot_frequency=5), False),
    ],
)
def test_equality(one: Channel, other: Channel, equal: bool) -> None:
    """Channels that treat writes alike are equal: a key may be declared twice with them."""
    assert (one == other) is equal
    assert (other == one) is equal
