"""Lists that change from checkpoint to checkpoint read back as they were at each."""

from __future__ import annotations

import copy
from struct import pack
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.slices import FAN, Span, crowded, cut, edit, flat, join, unflat
from savers.makers import checkpoint, config

NAN = float("nan")
elements = st.one_of(
    st.integers(-3, 3),
    st.booleans(),
    st.sampled_from([0.0, -0.0, 1.0, 1.5, float("inf"), NAN, float("nan"), -NAN]),
    st.none(),
    st.text(max_size=3),
    st.sampled_from(["x" * 40, "y" * 40, b"x" * 40]),
    st.fixed_dictionaries({"role": st.just("user"), "content": st.text(max_size=3)}),
    st.fixed_dictionaries({"content": st.sampled_from(["a" * 60, "b" * 60])}),
    st.just((1, 2)),
)
edits = st.one_of(
    st.tuples(st.just("append"), st.lists(elements, min_size=1, max_size=20)),
    st.tuples(st.just("replace"), st.integers(0, 40), elements),
    st.tuples(st.just("change in place"), st.integers(0, 40)),
    st.tuples(st.just("delete"), st.integers(0, 40), st.integers(1, 20)),
    st.tuples(st.just("truncate"), st.integers(0, 40)),
    st.tuples(st.just("repeat"), st.integers(0, 40), st.integers(0, 40)),
    st.tuples(st.just("fork"), st.integers(0, 40)),
    st.tuples(st.just("reload")),
)


def apply(values: list[Any], edit: tuple[Any, ...]) -> list[Any]:
    kind, *rest = edit
    if kind == "append":
        return values + rest[0]
    if kind == "truncate":
        return values[: rest[0]]
    if kind == "delete":
        return values[: rest[0]] + values[rest[0] + rest[1] :]
    if kind == "repeat":
        return values + values[rest[0] : rest[1]]
    if values and kind == "replace":
        at = rest[0] % len(values)
        return [*values[:at], rest[1], *values[at + 1 :]]
    if values and kind == "change in place":
        changed = values[rest[0] % len(values)]
        if isinstance(changed, dict):
            changed["content"] += "!"
    return list(values)


def exact(values: list[Any]) -> list[str]:
    """Tells 1 from True and 1.0, 0.0 from -0.0, and one NaN from another."""
    return [repr(pack(">d", value) if value != value else value) for value in values]


@settings(max_examples=150, deadline=None)
@given(st.lists(edits, max_size=40), st.booleans())
def test_every_checkpoint_reads_back_equal(changes: list[tuple[Any, ...]], inside_dict: bool) -> None:
    """Whatever is done to a list, each checkpoint gives it back as it was then."""
    saver = InMemorySaver()
    values: list[Any] = []
    stored: list[tuple[dict[str, Any], list[str]]] = []
    at = config()
    for change in changes:
        if change[0] == "fork" and stored:
            at, _ = stored[change[1] % len(stored)]
            values = read(saver, at, inside_dict)
        elif change[0] == "reload" and stored:
            saver._known.forget_thread("t")
            loaded = saver.load("t", "", at["configurable"]["checkpoint_id"])
            values = part(loaded.tuple.checkpoint["channel_values"]["xs"], inside_dict)
        else:
            values = apply(values, change)
        # Some of what is new has been written by a task first.
        if stored:
            saver.put_writes(at, [("xs", values[-2:])], f"task{len(stored)}")
        held = {"xs": values, "note": "n" * 600} if inside_dict else values
        at = saver.put(at, checkpoint(xs=held), {}, {"xs": 1})
        stored.append((at, exact(values)))
    for where, text in stored:
        assert exact(read(saver, where, inside_dict)) == text


def read(saver: InMemorySaver, at: dict[str, Any], inside_dict: bool) -> list[Any]:
    return part(saver.get_tuple(at).checkpoint["channel_values"]["xs"], inside_dict)


def part(value: Any, inside_dict: bool) -> list[Any]:
    return value["xs"] if inside_dict else value


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 5), st.integers(1, 5)), max_size=30))
def test_spans_survive_being_written_as_numbers(triples: list[tuple[int, int, int]]) -> None:
    """Rows, starts and lengths come back from their short form."""
    spans = [Span(*triple) for triple in triples]
    assert unflat(flat(spans)) == spans


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 5), st.integers(1, 5)), max_size=20),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_cutting_spans_is_cutting_the_list(
    triples: list[tuple[int, int, int]], start: int, length: int
) -> None:
    """`cut` takes what a slice of the list would, joined or not."""
    spans = [Span(*triple) for triple in triples]
    assert places(cut(spans, start, length)) == places(spans)[start : start + length]
    assert places(join(spans)) == places(spans)


def places(spans: list[Span]) -> list[tuple[int, int]]:
    return [(span.row, at) for span in spans for at in range(span.start, span.start + span.length)]


def test_appending_writes_the_new_elements_alone() -> None:
    """What was there before an append is named, not written."""
    old = copy.copy([Span(7, 0, 2, 0, 100)])
    from perdure.checkpoint.slices import Spans

    pieces = edit(["a", "b", "c"], [50, 50, 50], Spans(["a", "b"], old), {})
    assert pieces == [Span(7, 0, 2, 0, 100), range(2, 3)]


lookalikes = st.sampled_from([NAN, float("nan"), -NAN, 1, True, 1.0, 0, False, 0.0, -0.0, "1", b"1", None])


@settings(deadline=None)
@given(st.lists(lookalikes, min_size=FAN, max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_values_that_look_alike_are_told_apart(values: list[Any], start: int, stop: int) -> None:
    """Parts of a list, in another order, come back as they were: NaN equals nothing, 1 equals True."""
    saver = InMemorySaver()
    at = saver.put(config(), checkpoint(xs=values), {}, {"xs": 1})
    for changed in (values[start:], values[stop:] + values[:start], values[::-1]):
        at = saver.put(at, checkpoint(xs=changed), {}, {"xs": 1})
        assert exact(read(saver, at, inside_dict=False)) == exact(changed)


def test_few_spans_are_left_alone() -> None:
    """Fewer spans than fold into one are never folded."""
    assert crowded([Span(n, 0, 1) for n in range(FAN - 1)]) is None


def test_spans_of_the_highest_levels_fold_first() -> None:
    """A crowded run folds where its levels are highest, so that indexes nest like a B-tree."""
    levels = [0] * (FAN - 1) + [1] * (FAN + 1)
    assert crowded([Span(n, 0, 1, level) for n, level in enumerate(levels)]) == FAN - 1


def test_listed_checkpoints_share_no_elements(place: Any) -> None:
    """Who changes an element of one listed checkpoint changes no other, though rows are shared."""
    at = config()
    for count in (1, FAN * 3, FAN * 20):
        values = [{"content": f"{n} " * 30} for n in range(count)]
        at = place.put(at, checkpoint(xs=values), {}, {"xs": 1})
    listed = place.list(config())
    for element in next(listed).checkpoint["channel_values"]["xs"]:
        element["content"] = "changed"
    for found in listed:
        elements = found.checkpoint["channel_values"]["xs"]
        assert elements == [{"content": f"{n} " * 30} for n in range(len(elements))]
