"""Memory across threads: what a store offers, and the values it speaks in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias, cast

from typing_extensions import TypedDict, override

from perdure.store.embed import (
    AEmbeddingsFunc,
    Embeddings,
    EmbeddingsFunc,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
)
from perdure.store.namespaces import InvalidNamespaceError, Namespace, check_labels, check_target

__all__ = [
    "NOT_PROVIDED",
    "BaseStore",
    "Embeddings",
    "GetOp",
    "IndexConfig",
    "InvalidNamespaceError",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "NamespaceMatchType",
    "NamespacePath",
    "NotProvided",
    "Op",
    "PutOp",
    "Result",
    "SearchItem",
    "SearchOp",
    "TTLConfig",
    "effective_ttl",
    "ensure_embeddings",
    "get_text_at_path",
    "tokenize_path",
    "validate_op_namespace",
]


class _Unset(Enum):
    NOT_GIVEN = "NOT_GIVEN"

    @override
    def __repr__(self) -> str:
        return "NOT_GIVEN"

    def __bool__(self) -> Literal[False]:
        return False


NotProvided: TypeAlias = _Unset
NOT_PROVIDED: Final = _Unset.NOT_GIVEN
"""No time to live was named: the store's own default holds. (None: lives for ever.)"""

# -- what is kept ------------------------------------------------------------------------------


class Item:
    """A stored value and what is known about it."""

    __slots__ = ("created_at", "key", "namespace", "updated_at", "value")

    def __init__(
        self,
        *,
        value: dict[str, Any],
        key: str,
        namespace: Iterable[str],
        created_at: datetime | str,
        updated_at: datetime | str,
    ) -> None:
        self.value = value
        self.key = key
        self.namespace: Namespace = tuple(namespace)
        self.created_at = _moment(created_at)
        self.updated_at = _moment(updated_at)

    def _identity(self) -> tuple[Any, ...]:
        return self.value, self.key, self.namespace, self.created_at, self.updated_at

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Item) and self._identity() == other._identity()

    @override
    def __hash__(self) -> int:
        return hash((self.namespace, self.key))

    def dict(self) -> dict[str, Any]:
        """The item as JSON has it."""
        return {
            "namespace": list(self.namespace),
            "key": self.key,
            "value": self.value,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
        }

    @override
    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.dict().items())
        return f"{type(self).__name__}({fields})"


class SearchItem(Item):
    """An item that a search found."""

    __slots__ = ("score",)

    def __init__(
        self,
        namespace: Iterable[str],
        key: str,
        value: dict[str, Any],
        created_at: datetime | str,
        updated_at: datetime | str,
        score: float | None = None,
    ) -> None:
        super().__init__(
            value=value, key=key, namespace=namespace, created_at=created_at, updated_at=updated_at
        )
        self.score = score
        """Likeness to the query, greater is nearer; None if there was none."""

    @override
    def dict(self) -> dict[str, Any]:
        return {**super().dict(), "score": self.score}


def _moment(value: datetime | str) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


# -- what can be asked -------------------------------------------------------------------------

NamespacePath: TypeAlias = tuple[str, ...]
"""Labels, of which "*" stands for any one."""
NamespaceMatchType: TypeAlias = Literal["prefix", "suffix"]


class GetOp(NamedTuple):
    """Reads one item."""

    namespace: Namespace
    key: str
    refresh_ttl: bool = True


class SearchOp(NamedTuple):
    """Finds items at or below a namespace."""

    namespace_prefix: Namespace
    filter: dict[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None
    refresh_ttl: bool = True


class MatchCondition(NamedTuple):
    """What the start or the end of a namespace has to be."""

    match_type: NamespaceMatchType
    path: NamespacePath


class ListNamespacesOp(NamedTuple):
    """Lists the namespaces that hold items."""

    match_conditions: tuple[MatchCondition, ...] | None = None
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


class PutOp(NamedTuple):
    """Writes one item, or deletes it when the value is None."""

    namespace: Namespace
    key: str
    value: Mapping[str, Any] | None
    index: Literal[False] | list[str] | None = None  # type: ignore[assignment]  # shadows a method
    ttl: float | None = None
    """Minutes."""


Op: TypeAlias = GetOp | SearchOp | PutOp | ListNamespacesOp
Result: TypeAlias = Item | list[Item] | list[SearchItem] | list[Namespace] | None


class TTLConfig(TypedDict, total=False):
    """How long items live."""

    refresh_on_read: bool
    """Whether reading an item prolongs its life."""
    omit_expired: bool
    default_ttl: float | None
    """Minutes."""
    sweep_interval_minutes: int | None


class IndexConfig(TypedDict, total=False):
    """How items are made searchable by meaning."""

    dims: int
    """Length of the vectors."""
    embed: Embeddings | EmbeddingsFunc | AEmbeddingsFunc | str
    """What makes vectors of texts."""
    fields: list[str] | None
    """Paths of the texts in a value; `["$"]`, the whole value, if not given."""


def effective_ttl(
    ttl_config: TTLConfig | None, ttl: float | NotProvided | None = NOT_PROVIDED
) -> float | None:
    """The minutes that an item lives: those given, or else the store's default."""
    if ttl is not NOT_PROVIDED:
        return ttl
    return ttl_config.get("default_ttl") if ttl_config else None


def validate_op_namespace(op: Op) -> None:
    """Raises InvalidNamespaceError if an operation names a namespace that cannot be."""
    match op:
        case PutOp(namespace=namespace, value=value) if value is not None:
            check_target(namespace)
        case GetOp(namespace=namespace) | PutOp(namespace=namespace):
            check_labels(namespace)
        case SearchOp(namespace_prefix=prefix):
            check_labels(prefix)
        case ListNamespacesOp(match_conditions=conditions):
            for condition in conditions or ():
                check_labels(condition.path)


class BaseStore(ABC):
    """Keeps JSON values by namespace and key, and finds them by content.

    A store needs `batch` and `abatch`; everything else is made of those. A batch does all its
    reads before all its writes; of several writes to one key the last one counts.
    """

    supports_ttl: ClassVar[bool] = False
    ttl_config: TTLConfig | None = None

    @abstractmethod
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carries out operations; the results are in their order, None for writes."""

    @abstractmethod
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same as `batch`."""

    # -- one operation, sync

    def get(self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """The item, or None."""
        return cast(Item | None, self.batch([self._get_op(namespace, key, refresh_ttl)])[0])

    def search(
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """Items at or below a namespace: the nearest to the query first, else the newest.

        Args:
            query: What the item should be about; needs a store with an index.
            filter: Keys of the value with what they must equal, or with operators: `$eq`, `$ne`,
                `$gt`, `$gte`, `$lt`, `$lte`, `$in`.
        """
        op = self._search_op(namespace_prefix, query, filter, limit, offset, refresh_ttl)
        return cast(list[SearchItem], self.batch([op])[0])

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Writes an item, in place of the one that is there.

        Args:
            index: Paths to make searchable instead of the store's own; False for none.
            ttl: Minutes until it is forgotten; None for never.
        """
        self.batch([self._put_op(namespace, key, value, index, ttl)])

    def delete(self, namespace: Namespace, key: str) -> None:
        """Deletes an item, if it is there."""
        self.batch([self._delete_op(namespace, key)])

    def list_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """Namespaces that hold items, sorted; longer ones are cut to `max_depth` labels."""
        op = self._list_op(prefix, suffix, max_depth, limit, offset)
        return cast(list[Namespace], self.batch([op])[0])

    # -- one operation, async

    async def aget(self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """The same as `get`."""
        return cast(Item | None, (await self.abatch([self._get_op(namespace, key, refresh_ttl)]))[0])

    async def asearch(
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """The same as `search`."""
        op = self._search_op(namespace_prefix, query, filter, limit, offset, refresh_ttl)
        return cast(list[SearchItem], (await self.abatch([op]))[0])

    async def aput(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """The same as `put`."""
        await self.abatch([self._put_op(namespace, key, value, index, ttl)])

    async def adelete(self, namespace: Namespace, key: str) -> None:
        """The same as `delete`."""
        await self.abatch([self._delete_op(namespace, key)])

    async def alist_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """The same as `list_namespaces`."""
        op = self._list_op(prefix, suffix, max_depth, limit, offset)
        return cast(list[Namespace], (await self.abatch([op]))[0])

    # -- what both say

    def _refresh(self, given: bool | None) -> bool:
        if given is not None:
            return given
        return (self.ttl_config or {}).get("refresh_on_read", True)

    def _get_op(self, namespace: Namespace, key: str, refresh_ttl: bool | None) -> GetOp:
        op = GetOp(namespace, str(key), self._refresh(refresh_ttl))
        validate_op_namespace(op)
        return op

    def _search_op(
        self,
        prefix: Namespace,
        query: str | None,
        filter: dict[str, Any] | None,
        limit: int,
        offset: int,
        refresh_ttl: bool | None,
    ) -> SearchOp:
        op = SearchOp(prefix, filter, limit, offset, query, self._refresh(refresh_ttl))
        validate_op_namespace(op)
        return op

    def _put_op(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None,
        ttl: float | NotProvided | None,
    ) -> PutOp:
        if ttl and not self.supports_ttl:
            raise NotImplementedError(
                f"TTL is not supported by {type(self).__name__}. Use a store that supports it, or ttl=None."
            )
        op = PutOp(namespace, str(key), value, index, effective_ttl(self.ttl_config, ttl))
        validate_op_namespace(op)
        return op

    def _delete_op(self, namespace: Namespace, key: str) -> PutOp:
        op = PutOp(namespace, str(key), None)
        validate_op_namespace(op)
        return op

    def _list_op(
        self,
        prefix: NamespacePath | None,
        suffix: NamespacePath | None,
        max_depth: int | None,
        limit: int,
        offset: int,
    ) -> ListNamespacesOp:
        conditions = []
        if prefix:
            conditions.append(MatchCondition("prefix", tuple(prefix)))
        if suffix:
            conditions.append(MatchCondition("suffix", tuple(suffix)))
        op = ListNamespacesOp(tuple(conditions), max_depth, limit, offset)
        validate_op_namespace(op)
        return op
