"""A store in the memory of this process: for tests, examples and short lives."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from typing_extensions import override

from perdure.slotted import field, slotted
from perdure.store import filters, namespaces, vectors
from perdure.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)
from perdure.store.embed import ensure_embeddings, get_text_at_path, tokenize_path
from perdure.store.namespaces import Namespace
from perdure.store.values import json_copy, value_copy

__all__ = ["InMemoryStore"]


@slotted
class _Entry:
    """An item as it is kept."""

    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    vectors: tuple[vectors.Vector, ...] = ()


@slotted
class _Plan:
    """A batch that was checked, and the texts it needs vectors of."""

    ops: list[Op]
    values: dict[tuple[Namespace, str], dict[str, Any] | None] = field(default_factory=dict)
    """What is to be written, the last write of each key; None deletes."""
    texts: dict[tuple[Namespace, str], list[str]] = field(default_factory=dict)
    """What the written items are found by."""
    queries: list[str] = field(default_factory=list)


class InMemoryStore(BaseStore):
    """Keeps items until the process ends. Safe to use from several threads.

    Args:
        index: Makes items searchable by meaning; without it the `query` of a search is ignored.
    """

    def __init__(self, *, index: IndexConfig | None = None) -> None:
        self._data: dict[Namespace, dict[str, _Entry]] = {}
        self._lock = threading.Lock()
        self._newest = datetime.min.replace(tzinfo=UTC)
        self.index_config = index
        self.embeddings = ensure_embeddings(index.get("embed")) if index else None
        self._fields = [tokenize_path(path) for path in (index or {}).get("fields") or ["$"]]

    @override
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        plan = self._plan(ops)
        found = _Vectors()
        if self.embeddings is not None:
            documents = _unique(plan.texts.values())
            if documents:
                found.add_documents(documents, self.embeddings.embed_documents(documents), self._dims)
            for query in plan.queries:
                found.add_query(query, self.embeddings.embed_query(query), self._dims)
        return self._carry_out(plan, found)

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        plan = self._plan(ops)
        found = _Vectors()
        if self.embeddings is not None:
            documents = _unique(plan.texts.values())
            if documents:
                made = await self.embeddings.aembed_documents(documents)
                found.add_documents(documents, made, self._dims)
            for query in plan.queries:
                found.add_query(query, await self.embeddings.aembed_query(query), self._dims)
        return self._carry_out(plan, found)

    # -- before anything happens

    @property
    def _dims(self) -> int | None:
        return (self.index_config or {}).get("dims")

    def _plan(self, ops: Iterable[Op]) -> _Plan:
        plan = _Plan(list(ops))
        for op in plan.ops:
            validate_op_namespace(op)
            if isinstance(op, PutOp):
                self._plan_put(plan, op)
            elif isinstance(op, SearchOp) and self.embeddings and op.query and op.query not in plan.queries:
                plan.queries.append(op.query)
        return plan

    def _plan_put(self, plan: _Plan, op: PutOp) -> None:
        if op.ttl is not None:
            raise NotImplementedError("TTL is not supported by InMemoryStore. Use ttl=None.")
        place = op.namespace, str(op.key)
        plan.texts.pop(place, None)
        if op.value is None:
            plan.values[place] = None
            return
        value = plan.values[place] = value_copy(op.value)
        if self.embeddings is not None and op.index is not False:
            fields = self._fields if op.index is None else [tokenize_path(path) for path in op.index]
            plan.texts[place] = [text for tokens in fields for text in get_text_at_path(value, tokens)]

    # -- under the lock

    def _carry_out(self, plan: _Plan, found: _Vectors) -> list[Result]:
        with self._lock:
            results = [self._read(op, found) for op in plan.ops]
            now = self._now()
            for place, value in plan.values.items():
                if value is None:
                    self._delete(*place)
                else:
                    self._write(*place, value, now, found.of(plan.texts.get(place, ())))
            return results

    def _now(self) -> datetime:
        """A time later than that of any batch before, so that the newest item is known."""
        self._newest = max(datetime.now(UTC), self._newest + timedelta(microseconds=1))
        return self._newest

    def _read(self, op: Op, found: _Vectors) -> Result:
        match op:
            case GetOp():
                return self._get(op.namespace, str(op.key))
            case SearchOp():
                return self._search(op, found)
            case ListNamespacesOp():
                return self._list(op)
        return None

    def _get(self, namespace: Namespace, key: str) -> Item | None:
        entry = self._data.get(namespace, {}).get(key)
        if entry is None:
            return None
        return Item(
            value=json_copy(entry.value),
            key=key,
            namespace=namespace,
            created_at=entry.created_at,
            updated_at=entry.updated_at,
        )

    def _search(self, op: SearchOp, found: _Vectors) -> list[SearchItem]:
        conditions = filters.parse(op.filter)
        _check_page(op.limit, op.offset)
        hits = [
            (namespace, key, entry)
            for namespace, entries in self._data.items()
            if namespaces.is_prefix(op.namespace_prefix, namespace)
            for key, entry in entries.items()
            if filters.matches(entry.value, conditions)
        ]
        hits.sort(key=lambda hit: hit[:2])
        query = found.query(op.query)
        scored: list[tuple[Namespace, str, _Entry, float | None]]
        if query is None:
            hits.sort(key=lambda hit: hit[2].updated_at, reverse=True)
            scored = [(*hit, None) for hit in hits]
        else:
            near = [(*hit, vectors.best(query, hit[2].vectors)) for hit in hits if hit[2].vectors]
            near.sort(key=lambda hit: hit[3], reverse=True)
            scored = [*near]
        return [
            SearchItem(namespace, key, json_copy(entry.value), entry.created_at, entry.updated_at, score)
            for namespace, key, entry, score in scored[op.offset : op.offset + op.limit]
        ]

    def _list(self, op: ListNamespacesOp) -> list[Namespace]:
        _check_page(op.limit, op.offset)
        if op.max_depth is not None and op.max_depth < 0:
            raise ValueError(f"max_depth must not be negative, got {op.max_depth}")
        listed = {
            namespace[: op.max_depth]
            for namespace in self._data
            if all(namespaces.matches(namespace, *condition) for condition in op.match_conditions or ())
        }
        return sorted(listed)[op.offset : op.offset + op.limit]

    def _write(
        self,
        namespace: Namespace,
        key: str,
        value: dict[str, Any],
        now: datetime,
        made: tuple[vectors.Vector, ...],
    ) -> None:
        entries = self._data.setdefault(namespace, {})
        before = entries.get(key)
        entries[key] = _Entry(value, before.created_at if before else now, now, made)

    def _delete(self, namespace: Namespace, key: str) -> None:
        entries = self._data.get(namespace, {})
        entries.pop(key, None)
        if not entries:
            self._data.pop(namespace, None)


class _Vectors:
    """The vectors that a batch needs, by their texts."""

    def __init__(self) -> None:
        self._documents: dict[str, vectors.Vector] = {}
        self._queries: dict[str, vectors.Vector] = {}

    def add_documents(self, texts: Sequence[str], made: Sequence[Sequence[float]], dims: int | None) -> None:
        if len(made) != len(texts):
            raise ValueError(f"the embedding function made {len(made)} vectors of {len(texts)} texts")
        for text, vector in zip(texts, made, strict=True):
            self._documents[text] = vectors.unit(vector, dims)

    def add_query(self, text: str, vector: Sequence[float], dims: int | None) -> None:
        self._queries[text] = vectors.unit(vector, dims)

    def of(self, texts: Iterable[str]) -> tuple[vectors.Vector, ...]:
        return tuple(self._documents[text] for text in texts)

    def query(self, text: str | None) -> vectors.Vector | None:
        return self._queries.get(text) if text else None


def _unique(groups: Iterable[list[str]]) -> list[str]:
    return list(dict.fromkeys(text for group in groups for text in group))


def _check_page(limit: int, offset: int) -> None:
    if limit < 0 or offset < 0:
        raise ValueError(f"limit and offset must not be negative, got limit={limit}, offset={offset}")
