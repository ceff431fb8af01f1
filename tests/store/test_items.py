"""Items go in and come out, by namespace and key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure.errors import UnstorableError
from perdure.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
    effective_ttl,
)
from perdure.store.memory import InMemoryStore

NS = ("users", "ann")


@pytest.fixture
def store() -> BaseStore:
    return InMemoryStore()


def read(store: BaseStore, key: str = "k", namespace: tuple[str, ...] = NS) -> Any:
    item = store.get(namespace, key)
    return None if item is None else item.value


# -- put, get, delete


def test_what_was_put_is_found(store: BaseStore) -> None:
    """An item has its value, its place and its times."""
    store.put(NS, "k", {"a": 1})
    item = store.get(NS, "k")
    assert item is not None
    assert (item.namespace, item.key, item.value) == (NS, "k", {"a": 1})
    assert item.created_at == item.updated_at
    assert item.created_at.tzinfo is UTC


def test_nothing_is_found_where_nothing_is(store: BaseStore) -> None:
    """Reading a missing item gives None and leaves no trace."""
    assert store.get(NS, "k") is None
    assert store.list_namespaces() == []


def test_a_second_put_replaces(store: BaseStore) -> None:
    """The item keeps the time of its creation and gets a new one of its change."""
    store.put(NS, "k", {"a": 1})
    first = store.get(NS, "k")
    store.put(NS, "k", {"b": 2})
    second = store.get(NS, "k")
    assert first is not None and second is not None
    assert second.value == {"b": 2}
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at


def test_delete(store: BaseStore) -> None:
    """A deleted item is gone, and so is its namespace if it was the last one there."""
    store.put(NS, "k", {})
    store.delete(NS, "k")
    store.delete(NS, "k")
    assert store.get(NS, "k") is None
    assert store.list_namespaces() == []


def test_putting_none_deletes(store: BaseStore) -> None:
    """None in place of a value deletes the item."""
    store.put(NS, "k", {})
    store.put(NS, "k", None)  # type: ignore[arg-type]
    assert store.get(NS, "k") is None


def test_keys_are_text(store: BaseStore) -> None:
    """A number as key is the same as its text, for every method."""
    store.put(NS, 5, {"a": 1})  # type: ignore[arg-type]
    assert read(store, "5") == read(store, 5) == {"a": 1}  # type: ignore[arg-type]
    store.delete(NS, 5)  # type: ignore[arg-type]
    assert read(store, "5") is None


def test_stored_values_are_copies(store: BaseStore) -> None:
    """Neither the value that was put nor the one that was read is the one that is kept."""
    value = {"a": [1]}
    store.put(NS, "k", value)
    value["a"].append(2)
    read(store)["a"].append(3)
    store.search(NS)[0].value["a"].append(4)
    assert read(store) == {"a": [1]}


# -- values


def test_values_are_json(store: BaseStore) -> None:
    """Values come back as from any other store: tuples as lists, the rest as it was."""
    store.put(NS, "k", {"t": (1, 2.5), "n": None, "b": True, "big": 2**80, "d": {"é": "ü"}})
    assert read(store) == {"t": [1, 2.5], "n": None, "b": True, "big": 2**80, "d": {"é": "ü"}}


@pytest.mark.parametrize(
    ("value", "path", "type_name"),
    [
        ({"a": [1, {2}]}, ("a", 1), "set"),
        ({"at": datetime(2024, 1, 1)}, ("at",), "datetime.datetime"),
        ({"a": {"n": float("nan")}}, ("a", "n"), "float"),
        ({"a": {1: 2}}, ("a",), "int"),
    ],
)
def test_other_values_are_refused(store: BaseStore, value: Any, path: Any, type_name: str) -> None:
    """What other stores could not keep fails here, too, and says where it is."""
    with pytest.raises(UnstorableError, match="cannot be stored") as raised:
        store.put(NS, "k", value)
    assert (raised.value.path, raised.value.type_name) == (path, type_name)
    assert store.get(NS, "k") is None


def test_a_value_is_a_dict(store: BaseStore) -> None:
    """A bare value is refused."""
    with pytest.raises(TypeError, match="a store keeps dicts; got 5"):
        store.put(NS, "k", 5)  # type: ignore[arg-type]


# -- namespaces


@pytest.mark.parametrize(
    ("namespace", "reason"),
    [
        ((), "cannot be empty"),
        (("a", ""), "cannot be empty"),
        (("a.b",), "periods"),
        (("a\0b",), "NUL"),
        (("a", 1), "must be strings, not int"),
        (("langgraph", "a"), 'cannot be "langgraph"'),
    ],
)
def test_namespaces_that_cannot_be_written(store: BaseStore, namespace: Any, reason: str) -> None:
    """Each rule of namespaces has its own words, by method and by operation."""
    with pytest.raises(InvalidNamespaceError, match=reason):
        store.put(namespace, "k", {})
    with pytest.raises(InvalidNamespaceError, match=reason):
        store.batch([PutOp(namespace, "k", {})])
    assert store.list_namespaces() == []


@pytest.mark.parametrize("namespace", ["users", ["users"]])
def test_a_namespace_is_a_tuple(store: BaseStore, namespace: Any) -> None:
    """A string or list in place of the tuple is refused by every method."""
    for call in (
        lambda: store.put(namespace, "k", {}),
        lambda: store.get(namespace, "k"),
        lambda: store.delete(namespace, "k"),
        lambda: store.search(namespace),
    ):
        with pytest.raises(TypeError, match="a namespace is a tuple of labels"):
            call()


def test_bad_labels_cannot_be_asked_for(store: BaseStore) -> None:
    """Reading checks labels as well."""
    for call in (
        lambda: store.get(("a.b",), "k"),
        lambda: store.delete(("a.b",), "k"),
        lambda: store.search(("a.b",)),
        lambda: store.list_namespaces(prefix=("a.b",)),
    ):
        with pytest.raises(InvalidNamespaceError):
            call()


def test_the_empty_namespace_can_be_asked_for(store: BaseStore) -> None:
    """Nothing can be there, but a search of it is a search of everything."""
    store.put(NS, "k", {})
    assert store.get((), "k") is None
    assert [item.key for item in store.search(())] == ["k"]


def test_the_reserved_label_may_stand_deeper(store: BaseStore) -> None:
    """Only the first label is reserved."""
    store.put(("a", "langgraph"), "k", {"x": 1})
    assert read(store, namespace=("a", "langgraph")) == {"x": 1}


# -- list_namespaces


@pytest.fixture
def many(store: BaseStore) -> BaseStore:
    for namespace in [("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c"), ("ab", "b"), ("b",)]:
        store.put(namespace, "k", {})
    return store


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, [("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c"), ("ab", "b"), ("b",)]),
        ({"prefix": ("a",)}, [("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c")]),
        ({"prefix": ("a", "*", "c")}, [("a", "b", "c"), ("a", "x", "c")]),
        ({"suffix": ("b",)}, [("ab", "b"), ("b",)]),
        ({"suffix": ("*", "c")}, [("a", "b", "c"), ("a", "x", "c")]),
        ({"prefix": ("a",), "suffix": ("d",)}, [("a", "b", "d")]),
        ({"max_depth": 1}, [("a",), ("ab",), ("b",)]),
        ({"max_depth": 2, "prefix": ("a",)}, [("a", "b"), ("a", "x")]),
        ({"max_depth": 0}, [()]),
        ({"limit": 2, "offset": 1}, [("a", "b", "d"), ("a", "x", "c")]),
        ({"limit": 0}, []),
    ],
)
def test_list_namespaces(many: BaseStore, asked: Any, expected: list[tuple[str, ...]]) -> None:
    """Namespaces are listed by pattern, depth and page, in order."""
    assert many.list_namespaces(**asked) == expected


@pytest.mark.parametrize("asked", [{"limit": -1}, {"offset": -1}, {"max_depth": -1}])
def test_numbers_of_a_listing(store: BaseStore, asked: Any) -> None:
    """Negative numbers mean nothing."""
    with pytest.raises(ValueError, match="must not be negative"):
        store.list_namespaces(**asked)


def test_unknown_match_type(many: BaseStore) -> None:
    """A condition is about the start or the end."""
    op = ListNamespacesOp((MatchCondition("middle", ("a",)),))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'prefix' or 'suffix', not 'middle'"):
        many.batch([op])


# -- batches


def test_a_batch_reads_before_it_writes(store: BaseStore) -> None:
    """Reads see what was there before the batch, wherever they stand; the last write stays."""
    store.put(NS, "k", {"v": 1})
    written, got, found, listed, _ = store.batch(
        [
            PutOp(NS, "k", {"v": 2}),
            GetOp(NS, "k"),
            SearchOp(NS),
            ListNamespacesOp(),
            PutOp(NS, "k", {"v": 3}),
        ]
    )
    assert written is None
    assert isinstance(got, Item) and got.value == {"v": 1}
    assert isinstance(found, list) and [item.value for item in found] == [{"v": 1}]  # type: ignore[union-attr]
    assert listed == [NS]
    assert read(store) == {"v": 3}


def test_a_batch_with_a_fault_writes_nothing(store: BaseStore) -> None:
    """One bad operation refuses the whole batch."""
    with pytest.raises(InvalidNamespaceError):
        store.batch([PutOp(NS, "k", {}), PutOp((), "k", {})])
    assert store.get(NS, "k") is None


def test_an_empty_batch(store: BaseStore) -> None:
    """Nothing asked, nothing answered."""
    assert store.batch([]) == []


# -- time to live


def test_ttl_is_not_supported(store: BaseStore) -> None:
    """A store that cannot forget says so, instead of keeping the item for ever."""
    with pytest.raises(NotImplementedError, match="TTL is not supported by InMemoryStore"):
        store.put(NS, "k", {}, ttl=5)
    with pytest.raises(NotImplementedError):
        store.batch([PutOp(NS, "k", {}, None, 5)])
    store.put(NS, "k", {}, ttl=None)


def test_effective_ttl() -> None:
    """What is given counts, None included; else the store's default."""
    assert effective_ttl({"default_ttl": 5}) == 5
    assert effective_ttl({"default_ttl": 5}, None) is None
    assert effective_ttl({"default_ttl": 5}, 2) == 2
    assert effective_ttl(None) is None


# -- async


def test_the_async_methods_do_the_same() -> None:
    """Each method has an async twin with the same results."""

    async def body() -> None:
        store = InMemoryStore()
        await store.aput(NS, 5, {"a": 1})  # type: ignore[arg-type]
        item = await store.aget(NS, 5)  # type: ignore[arg-type]
        assert item is not None and item.value == {"a": 1}
        assert await store.asearch(NS, filter={"a": 1}) == store.search(NS, filter={"a": 1})
        assert await store.alist_namespaces(prefix=("users",)) == [NS]
        await store.adelete(NS, "5")
        assert await store.aget(NS, "5") is None

    asyncio.run(body())


# -- Item


@pytest.fixture
def times() -> Iterator[dict[str, Any]]:
    yield {"created_at": "2024-01-01T00:00:00+00:00", "updated_at": "2024-01-02T00:00:00+00:00"}


def test_items_take_iso_times_and_list_namespaces(times: dict[str, Any]) -> None:
    """An item can be made from what JSON has of it."""
    item = Item(value={"a": 1}, key="k", namespace=["a", "b"], **times)
    assert item.namespace == ("a", "b")
    assert item.created_at == datetime(2024, 1, 1, tzinfo=UTC)
    assert Item(**item.dict()) == item


def test_items_are_compared_by_everything_and_hashed_by_place(times: dict[str, Any]) -> None:
    """Two states of one place are different and hash alike."""
    one = Item(value={"a": 1}, key="k", namespace=NS, **times)
    other = Item(value={"a": 2}, key="k", namespace=NS, **times)
    assert one != other
    assert hash(one) == hash(other)


def test_found_items_have_a_score(times: dict[str, Any]) -> None:
    """The score is part of a found item's JSON and text."""
    item = SearchItem(NS, "k", {}, times["created_at"], times["updated_at"], 0.5)
    assert item.dict()["score"] == 0.5
    assert "score=0.5" in repr(item)
