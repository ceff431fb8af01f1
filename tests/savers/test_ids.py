"""Ids sort in time whatever the clock does, and hashes are the same everywhere."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from perdure.ids import checkpoint_id_time, hash128, new_checkpoint_id, task_uuid

CLOCK = 1_800_000_000_000_000_000


def test_ids_are_uuids_of_version_6() -> None:
    """An id is a well-formed uuid that tells its time and its step."""
    made = new_checkpoint_id(CLOCK, None, None, 5)
    parsed = uuid.UUID(made)
    assert (str(parsed), parsed.version, parsed.variant) == (made, 6, uuid.RFC_4122)
    assert made.split("-")[3] == "8005"
    assert checkpoint_id_time(made) == CLOCK // 100 + 0x01B21DD213814000


def test_steps_before_the_first_wrap() -> None:
    """The input's step -1 and the empty checkpoint's -2 show as they always did."""
    groups = [new_checkpoint_id(CLOCK, None, None, step).split("-")[3] for step in (-2, -1, 0, 1)]
    assert groups == ["bffe", "bfff", "8000", "8001"]


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=30))
def test_ids_grow_whatever_the_clock_does(jumps: list[int]) -> None:
    """Each id sorts after its parent and after the newest, as text, with a clock that jumps."""
    parent = newest = new_checkpoint_id(CLOCK, None, None, 0)
    clock = CLOCK
    for step, jump in enumerate(jumps):
        clock += jump
        made = new_checkpoint_id(clock, parent, newest, step)
        assert made > newest
        parent, newest = newest, made


def test_ids_of_one_instant_differ() -> None:
    """Two ids made at the same time without a common past are not the same."""
    assert new_checkpoint_id(CLOCK, None, None, 0) != new_checkpoint_id(CLOCK, None, None, 0)


def test_a_given_node_makes_ids_repeatable() -> None:
    """A simulation that names the last group gets the same id again."""
    made = new_checkpoint_id(CLOCK, None, None, 0, node=7)
    assert made == new_checkpoint_id(CLOCK, None, None, 0, node=7)
    assert made.endswith("-000000000007")


def test_ids_of_another_kind_have_no_time() -> None:
    """Ids that others made do not upset the order."""
    for id in ("", "1", str(uuid.UUID(int=7)), "zzzzzzzz-zzzz-6zzz-zzzz-zzzzzzzzzzzz"):
        assert checkpoint_id_time(id) == 0


def test_hashes_are_of_the_parts_in_a_row() -> None:
    """The hash is that of the joined parts, known here by its value."""
    assert hash128(b"a", b"bc") == hash128(b"abc") == "06b05ab6733a618578af5f94892f3950"
    assert task_uuid(hash128(b"abc")) == "06b05ab6-733a-6185-78af-5f94892f3950"
