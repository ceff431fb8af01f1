"""Digests by which calls are known again."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given, settings

from perdure.serde import Codec, Registry, digest, digest_call
from serde import samples

CODE = """
import sys
from serde import models, samples
from perdure.serde import digest
words = {"a", "b", "c", "d", ("e", frozenset({"f", "g"}))}
values = [*samples.VALUES, words, {"s": words}, models.User(name="a", tags={"x", "y", "z"})]
print("\\n".join(digest(((value,), {})) for value in [*values, lambda: 1, object(), samples.Plain()]))
"""


def digests(seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": "src:tests"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_digest_is_the_same_in_every_process() -> None:
    """Neither the hash seed nor addresses have a part in it."""
    assert digests("1") == digests("2")


def test_different_values_have_different_digests() -> None:
    """Types count: 1 is not True, a list is not a tuple."""
    values = [*samples.VALUES, 1, 1.0, (1,), [1], {1}, frozenset({1}), "1", b"1", bytearray(b"1"), {1: 1}]
    found: dict[str, list[Any]] = {}
    for value in values:
        found.setdefault(digest(value), []).append(value)
    twice = [alike for alike in found.values() if not all(samples.same(alike[0], one) for one in alike)]
    assert twice == []


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(samples.ANYTHING)
def test_a_value_that_was_stored_has_the_same_digest(value: Any) -> None:
    """A replay finds what the first run called with equal arguments."""
    codec = Codec()
    assert digest(codec.decode(codec.encode(value))) == digest(value)


def test_the_order_of_a_set_does_not_count() -> None:
    """Sets are equal however they were filled, whatever is in them."""
    items = [(n, frozenset({n, "x"})) for n in range(20)]
    backwards = items[::-1]
    assert digest(set(items)) == digest(set(backwards))


def test_the_order_of_keyword_arguments_does_not_count() -> None:
    """f(a=1, b=2) and f(b=2, a=1) are one call; dicts that are arguments keep their order."""
    assert digest_call((), {"a": 1, "b": 2}) == digest_call((), {"b": 2, "a": 1})
    assert digest_call(({"a": 1, "b": 2},), {}) != digest_call(({"b": 2, "a": 1},), {})


def test_the_digest_of_a_call_is_that_of_its_arguments() -> None:
    """Both doors lead to the same."""
    assert digest_call((1, "a"), {"k": 2}) == digest(((1, "a"), {"k": 2}))
    assert digest_call((1,), {}) != digest_call(((1,),), {})


@pytest.mark.parametrize(
    "make",
    [threading.Lock, samples.Plain, lambda: (n for n in ()), lambda: samples.Point(threading.Lock())],
    ids=["lock", "plain", "generator", "inside"],
)
def test_what_cannot_be_stored_counts_by_its_type(make: Any) -> None:
    """Two of a kind are equal, and what is beside them still counts."""
    assert digest([make(), 1]) == digest([make(), 1])
    assert digest([make(), 1]) != digest([make(), 2])
    assert digest([make(), 1]) != digest([object(), 1])


def test_functions_and_classes_count_by_their_name() -> None:
    """Another function is another argument."""
    assert digest(samples.same) != digest(samples.same_content)
    assert digest(samples.Plain) != digest(samples.Outer)


def test_a_digest_never_fails() -> None:
    """Values that contain themselves, or raise when looked at, have one too."""
    cycle: list[Any] = []
    cycle.append((cycle, cycle))
    registry = Registry()
    registry.register(samples.Plain, lambda value: 1 / 0, lambda stored: samples.Plain())
    deep: Any = 1
    for _ in range(50_000):
        deep = frozenset({deep})
    values = [cycle, deep, "\ud800", numpy.array([object()]), ValueError(threading.Lock())]
    for value in [*values, samples.Plain()]:
        assert len(Codec(registry).digest(value)) == 32


def test_an_error_has_no_address_in_its_digest() -> None:
    """What an error holds and cannot be stored counts by its type."""
    assert digest(ValueError(object())) == digest(ValueError(object()))


def test_a_strict_registry_digests_every_class() -> None:
    """Arguments need not be stored to be told apart."""
    codec = Codec(Registry(strict=True))
    assert codec.digest(samples.Point(1)) != codec.digest(samples.Point(2))
