"""The caches by themselves: what they keep, how long, and for whom."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.cache import memory, sqlite
from perdure.cache.base import BaseCache
from perdure.cache.memory import InMemoryCache
from perdure.cache.sqlite import SqliteCache


class Half:
    """One way to call a cache: by its sync methods, or by its async ones."""

    def __init__(self, cache: BaseCache[Any], *, is_async: bool) -> None:
        self.cache = cache
        self.is_async = is_async

    def _call(self, name: str, *args: Any) -> Any:
        if self.is_async:
            return asyncio.run(getattr(self.cache, f"a{name}")(*args))
        return getattr(self.cache, name)(*args)

    def get(self, *keys: Any) -> Any:
        return self._call("get", keys)

    def set(self, pairs: Any) -> None:
        self._call("set", pairs)

    def clear(self, *args: Any) -> None:
        self._call("clear", *args)


@pytest.fixture(params=["memory", "sqlite"])
def plain(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseCache[Any]]:
    if request.param == "memory":
        yield InMemoryCache()
        return
    with SqliteCache(path=tmp_path / "cache.db") as cache:
        yield cache


@pytest.fixture(params=["sync", "async"])
def cache(request: pytest.FixtureRequest, plain: BaseCache[Any]) -> Half:
    return Half(plain, is_async=request.param == "async")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, for both caches."""
    now = [1000.0]
    for room in (memory, sqlite):
        monkeypatch.setattr(room, "time", type("Clock", (), {"time": staticmethod(lambda: now[0])}))
    return now


A, B = (("n",), "a"), (("n",), "b")


def test_only_hits_are_given(cache):
    """What is not there is left out."""
    cache.set({A: (1, None)})
    assert cache.get(A, B) == {A: 1}


def test_values_come_back_as_they_went_in(cache):
    """Tuples stay tuples, sets stay sets."""
    value = [("log", ["x", ("y", {1, 2})])]
    cache.set({A: (value, None)})
    assert cache.get(A) == {A: value}


def test_who_gets_a_value_may_change_it(cache):
    """The cache keeps its own copy."""
    cache.set({A: ([1], None)})
    cache.get(A)[A].append(2)
    assert cache.get(A) == {A: [1]}


def test_a_newer_value_replaces_the_old_one(cache):
    """The last `set` of a key counts."""
    cache.set({A: (1, None)})
    cache.set({A: (2, None)})
    assert cache.get(A) == {A: 2}


@pytest.mark.parametrize(("passed", "found"), [(1.4, {A: 1}), (1.5, {})])
def test_a_value_expires(cache, clock, passed, found):
    """After its time to live, fractions of seconds included, a value is gone."""
    cache.set({A: (1, 1.5)})
    clock[0] += passed
    assert cache.get(A) == found


@pytest.mark.parametrize("ttl", [0, -1])
def test_a_value_without_time_to_live_is_never_given(cache, clock, ttl):
    """A time to live of zero or less keeps nothing."""
    cache.set({A: (1, ttl)})
    assert cache.get(A) == {}


@pytest.mark.parametrize("namespaces", [((),), (("a,b",), ("a", "b")), (("1:a",), ("a",), ("", "a"))])
def test_namespaces_do_not_collide(cache, namespaces):
    """Each namespace has keys of its own, whatever characters its parts have."""
    for number, namespace in enumerate(namespaces):
        cache.set({(namespace, "k"): (number, None)})
    keys = [(namespace, "k") for namespace in namespaces]
    assert cache.get(*keys) == {key: number for number, key in enumerate(keys)}


@pytest.mark.parametrize(
    ("cleared", "left"),
    [([("n",)], {("n", "below"), ("m",)}), (None, set()), ([], {("n",), ("n", "below"), ("m",)})],
)
def test_clear_takes_exactly_the_namespaces_named(cache, cleared, left):
    """Those below stay; None clears all, an empty list nothing."""
    keys = [(namespace, "k") for namespace in (("n",), ("n", "below"), ("m",))]
    cache.set(dict.fromkeys(keys, (1, None)))
    cache.clear(cleared)
    assert {namespace for namespace, _ in cache.get(*keys)} == left


def test_what_cannot_be_stored_is_refused(cache):
    """A value without bytes raises TypeError, and nothing of its `set` is kept."""
    with pytest.raises(TypeError):
        cache.set({A: (1, None), B: (threading.Lock(), None)})
    assert cache.get(A, B) == {}


def test_many_keys_at_once(cache):
    """There is no limit on the keys of one call."""
    pairs = {(("n",), str(number)): (number, None) for number in range(1200)}
    cache.set(pairs)
    assert len(cache.get(*pairs)) == 1200


def test_a_full_memory_cache_drops_what_was_used_least_recently():
    """Reading a value counts as use."""
    cache: InMemoryCache[int] = InMemoryCache(max_size=2)
    cache.set({A: (1, None), B: (2, None)})
    cache.get([A])
    cache.set({(("n",), "c"): (3, None)})
    assert list(cache.get([A, B, (("n",), "c")]).values()) == [1, 3]


def test_a_cache_without_room_is_refused():
    """`max_size` is at least 1."""
    with pytest.raises(ValueError, match="max_size must be at least 1, not 0"):
        InMemoryCache(max_size=0)


def test_a_file_outlives_the_object(tmp_path):
    """Another process, or a later one, finds what was stored."""
    with SqliteCache(path=str(tmp_path / "cache.db")) as first:
        first.set({A: ("kept", None)})
    with SqliteCache(path=str(tmp_path / "cache.db")) as second:
        assert second.get([A]) == {A: "kept"}


def test_what_has_expired_leaves_the_file(tmp_path, clock):
    """Storing anything takes expired values away."""
    with SqliteCache(path=tmp_path / "cache.db") as cache:
        cache.set({A: (1, 1)})
        clock[0] += 2
        cache.set({B: (2, None)})
        assert cache._connection.execute("SELECT count(*) FROM cached_results").fetchone() == (1,)


def test_async_calls_leave_the_loop_alone(tmp_path):
    """The file is read and written on another thread than the loop's."""
    here = threading.get_ident()
    threads = []

    class Watching(SqliteCache[int]):
        def get(self, keys):
            threads.append(threading.get_ident())
            return super().get(keys)

        def set(self, pairs):
            threads.append(threading.get_ident())
            super().set(pairs)

    async def main():
        await cache.aset({A: (1, None)})
        return await cache.aget([A])

    with Watching(path=tmp_path / "cache.db") as cache:
        assert asyncio.run(main()) == {A: 1}
    assert len(threads) == 2 and here not in threads


def test_a_cache_serves_several_threads(plain):
    """Threads that read and write at the same time see whole values."""
    wrong = []

    def work(number):
        for step in range(30):
            plain.set({(("n",), str(step % 5)): ([step, step], None)})
            found = plain.get([(("n",), str(step % 5))])
            wrong.extend(value for value in found.values() if value[0] != value[1])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_another_serializer_may_be_given():
    """`serde` says how values become bytes."""

    class Text:
        def dumps_typed(self, obj):
            return "text", repr(obj).encode()

        def loads_typed(self, data):
            return data[1].decode()

    cache: InMemoryCache[Any] = InMemoryCache(serde=Text())
    cache.set({A: (1, None)})
    assert cache.get([A]) == {A: "1"}
