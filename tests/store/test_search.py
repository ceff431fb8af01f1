"""Items are found by what they hold."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from perdure.store import filters
from perdure.store.base import BaseStore, PutOp, SearchOp
from perdure.store.memory import InMemoryStore

VALUES: dict[str, dict[str, Any]] = {
    "a": {"n": 1, "s": "x", "b": True, "nul": None, "l": [1, 2], "o": {"p": {"q": 1}}, "d.t": "dot"},
    "b": {"n": 10, "s": "y", "b": False},
    "c": {"n": 9, "s": "10"},
    "d": {"n": 1.5},
    "e": {},
}


@pytest.fixture
def store() -> BaseStore:
    store = InMemoryStore()
    for key, value in VALUES.items():
        store.put(("p",), key, value)
    return store


def keys(items: Sequence[Any]) -> str:
    return "".join(sorted(item.key for item in items))


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ({}, "abcde"),
        ({"n": 1}, "a"),
        ({"n": 1.0}, "a"),
        ({"n": {"$gt": 2}}, "bc"),
        ({"n": {"$gte": 1, "$lt": 10}}, "acd"),
        ({"n": {"$lte": 1.5}}, "ad"),
        ({"n": {"$ne": 1}}, "bcd"),
        ({"n": {"$in": [1, 9]}}, "ac"),
        ({"n": {"$in": []}}, ""),
        ({"n": {"$gt": "0"}}, ""),
        ({"s": {"$gt": "x"}}, "b"),
        ({"s": {"$gt": 1}}, ""),
        ({"s": "x", "n": 1}, "a"),
        ({"s": "x", "n": 2}, ""),
        ({"b": True}, "a"),
        ({"b": 1}, ""),
        ({"n": True}, ""),
        ({"b": {"$gte": 0}}, ""),
        ({"nul": None}, "a"),
        ({"zz": None}, ""),
        ({"zz": {"$ne": 1}}, ""),
        ({"l": [1, 2]}, "a"),
        ({"l": [1, True]}, ""),
        ({"l": {"$eq": (1, 2)}}, "a"),
        ({"l": {"$ne": [3]}}, "a"),
        ({"o": {"p": {"q": 1}}}, "a"),
        ({"o": {"$eq": {"p": {"q": 1}}}}, "a"),
        ({"o": {"p": {"q": 2}}}, ""),
        ({"o": {}}, ""),
        ({"o.p.q": 1}, ""),
        ({"d.t": "dot"}, "a"),
        ({"no such 'key'": 1}, ""),
    ],
)
def test_filters(store: BaseStore, filter: dict[str, Any], found: str) -> None:
    """One set of rules says what a filter matches."""
    assert keys(store.search((), filter=filter)) == found


@pytest.mark.parametrize(
    ("filter", "reason"),
    [
        ({"n": {"$near": 1}}, r"Unsupported operator: \$near"),
        ({"n": {"$gt": 1, "x": 2}}, "mixes operators"),
        ({"n": {"$in": 5}}, r"\$in of key 'n' takes a list"),
    ],
)
def test_faulty_filters(store: BaseStore, filter: dict[str, Any], reason: str) -> None:
    """A filter that means nothing is refused, even if there is nothing to search."""
    with pytest.raises(ValueError, match=reason):
        InMemoryStore().search((), filter=filter)


def test_conditions_are_data() -> None:
    """Other stores translate the same conditions to their own language."""
    assert filters.parse({"a": 1, "b": {"$gt": 2, "$lt": 3}}) == [
        filters.Condition("a", "$eq", 1),
        filters.Condition("b", "$gt", 2),
        filters.Condition("b", "$lt", 3),
    ]


# -- where and in which order


def test_a_prefix_is_whole_labels() -> None:
    """A search covers a namespace and what lies below, not what only sounds alike."""
    store = InMemoryStore()
    for namespace in [("p",), ("p", "q"), ("pq",), ("P",), ("*",)]:
        store.put(namespace, namespace[-1], {})
    assert keys(store.search(("p",))) == "pq"
    assert keys(store.search(("*",))) == "*"


def test_the_newest_first(store: BaseStore) -> None:
    """Without a query items come by the time of their last change."""
    store.put(("p",), "c", {})
    assert store.search(("p",), limit=1)[0].key == "c"


def test_pages(store: BaseStore) -> None:
    """Pages follow each other without gap or overlap."""
    everything = [item.key for item in store.search(("p",))]
    pages = [store.search(("p",), limit=2, offset=offset) for offset in (0, 2, 4, 6)]
    assert [item.key for page in pages for item in page] == everything
    assert store.search(("p",), limit=0) == []


@pytest.mark.parametrize("page", [{"limit": -1}, {"offset": -1}])
def test_negative_pages(store: BaseStore, page: dict[str, int]) -> None:
    """Negative numbers mean nothing."""
    with pytest.raises(ValueError, match="must not be negative"):
        store.search(("p",), **page)  # type: ignore[arg-type]


def test_a_query_needs_an_index(store: BaseStore) -> None:
    """Without an index the query is ignored, and scores are None."""
    found = store.search(("p",), query="x")
    assert keys(found) == "abcde"
    assert {item.score for item in found} == {None}


# -- by meaning


class Counted:
    """Vectors of texts: how often each of three letters occurs. Notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked.append(list(texts))
        return [[float(text.count(letter)) for letter in "xyz"] for text in texts]


def indexed(embed: Any, **index: Any) -> InMemoryStore:
    return InMemoryStore(index={"dims": 3, "embed": embed, **index})


def test_the_nearest_first() -> None:
    """Items come by likeness to the query, with their scores."""
    store = indexed(Counted())
    for key, text in {"1": "xxy", "2": "zzz", "3": "x"}.items():
        store.put(("p",), key, {"text": text})
    found = store.search(("p",), query="xx")
    assert [item.key for item in found][:2] == ["3", "1"]
    assert found[-1].key == "2"
    scores = [item.score for item in found]
    assert scores == sorted(scores, key=lambda score: -(score or 0))


def test_an_item_is_as_near_as_its_best_field() -> None:
    """Each path of the index counts on its own."""
    store = indexed(Counted(), fields=["title", "tags[*]"])
    store.put(("p",), "1", {"title": "z", "tags": ["y", "x"], "rest": "xxx"})
    assert store.search(("p",), query="x")[0].score == pytest.approx(1.0)
    assert store.search(("p",), query="z")[0].score == pytest.approx(1.0)


@pytest.mark.parametrize("index", [False, ["other"], []])
def test_items_without_text_are_not_found_by_a_query(index: Any) -> None:
    """An item that is not indexed never answers a query, but any other search."""
    store = indexed(Counted())
    store.put(("p",), "1", {"text": "x"}, index=index)
    assert store.search(("p",), query="x") == []
    assert keys(store.search(("p",))) == "1"


def test_the_paths_of_one_item_may_be_its_own() -> None:
    """Paths given with the item replace those of the store."""
    store = indexed(Counted(), fields=["title"])
    store.put(("p",), "1", {"title": "x", "text": "y"}, index=["text"])
    assert store.search(("p",), query="y")[0].score == pytest.approx(1.0)
    assert store.search(("p",), query="x")[0].score == pytest.approx(0.0)


@pytest.mark.parametrize("index", [None, False])
def test_old_texts_are_forgotten(index: Any) -> None:
    """An item that was changed is not found by what it held before."""
    store = indexed(Counted(), fields=["text"])
    store.put(("p",), "1", {"text": "x"})
    store.put(("p",), "1", {"other": "y"}, index=index)
    assert store.search(("p",), query="x") == []


def test_pages_of_a_query() -> None:
    """Paging is exact, also with items that are not indexed between."""
    store = indexed(Counted())
    for number in range(6):
        store.put(
            ("p",), str(number), {"text": "x" * (number + 1) + "y"}, index=None if number % 2 else False
        )
    pages = [store.search(("p",), query="x", limit=2, offset=offset) for offset in (0, 2)]
    assert [[item.key for item in page] for page in pages] == [["5", "3"], ["1"]]


def test_filter_and_query() -> None:
    """A query orders what the filter lets through."""
    store = indexed(Counted())
    store.put(("p",), "1", {"text": "x", "ok": False})
    store.put(("p",), "2", {"text": "y", "ok": True})
    assert [item.key for item in store.search(("p",), query="x", filter={"ok": True})] == ["2"]


def test_one_text_is_embedded_once() -> None:
    """Equal texts in one batch share a vector."""
    embed = Counted()
    store = indexed(embed, fields=["text"])
    store.batch([PutOp(("p",), key, {"text": "x"}) for key in "ab"])
    assert embed.asked == [["x"]]
    assert keys(store.search(("p",), query="x")) == "ab"


def test_one_query_is_embedded_once() -> None:
    """Equal queries in one batch share a vector."""
    embed = Counted()
    indexed(embed).batch([SearchOp(("p",), query="x"), SearchOp(("q",), query="x")])
    assert embed.asked == [["x"]]


def test_a_deleted_item_is_not_embedded() -> None:
    """Only what stays is made searchable."""
    embed = Counted()
    store = indexed(embed)
    store.batch([PutOp(("p",), "a", {"text": "x"}), PutOp(("p",), "a", None)])
    assert embed.asked == []


def test_vectors_have_the_length_of_the_index() -> None:
    """A model that does not fit the index is noticed."""
    store = InMemoryStore(index={"dims": 4, "embed": Counted()})
    with pytest.raises(ValueError, match="3 numbers, but the index has dims=4"):
        store.put(("p",), "1", {"text": "x"})


def test_vectors_are_counted() -> None:
    """A function that loses texts is noticed."""
    store = indexed(lambda texts: [])
    with pytest.raises(ValueError, match="made 0 vectors of 1 texts"):
        store.put(("p",), "1", {"text": "x"})


def test_an_async_function_serves_async_users() -> None:
    """An async embedding function works in async methods and says so in sync ones."""

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        return Counted()(texts)

    async def body() -> list[str]:
        await store.aput(("p",), "1", {"text": "x"})
        await store.aput(("p",), "2", {"text": "y"})
        return [item.key for item in await store.asearch(("p",), query="x")]

    store = indexed(embed)
    assert asyncio.run(body()) == ["1", "2"]
    with pytest.raises(ValueError, match="embedding function is async"):
        store.put(("p",), "1", {"text": "x"})


def test_a_sync_function_serves_async_users() -> None:
    """A sync embedding function works in async methods, too."""

    async def body() -> list[str]:
        await store.aput(("p",), "1", {"text": "x"})
        return [item.key for item in await store.asearch(("p",), query="x")]

    store = indexed(Counted())
    assert asyncio.run(body()) == ["1"]
