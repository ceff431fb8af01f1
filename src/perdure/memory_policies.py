"""What is remembered of a step, and what tracers see of it: policies that few programs name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

from typing_extensions import TypeVar

KeyFuncT = TypeVar("KeyFuncT", bound=Callable[..., str | bytes], default=Callable[..., str | bytes])

# -- caches ------------------------------------------------------------------------------------


def default_cache_key(*args: Any, **kwargs: Any) -> str | bytes:
    """A key of the arguments, equal for equal dicts and sets whatever their order."""
    import pickle  # only programs that cache need it

    return pickle.dumps((_frozen(args), _frozen(kwargs)), protocol=5)


def _frozen(value: Any, depth: int = 20) -> Any:
    if depth == 0:
        return value
    if isinstance(value, Mapping):
        pairs = [(_frozen(key, depth - 1), _frozen(item, depth - 1)) for key, item in value.items()]
        return "mapping", sorted(pairs, key=lambda pair: repr(pair[0]))
    if isinstance(value, (set, frozenset)):
        return "set", sorted((_frozen(item, depth - 1) for item in value), key=repr)
    if isinstance(value, (list, tuple)):
        return "sequence", [_frozen(item, depth - 1) for item in value]
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePolicy(Generic[KeyFuncT]):
    """That results of a step are kept and used again for equal input."""

    key_func: KeyFuncT = default_cache_key  # type: ignore[assignment]
    """Makes the key from the input (for tasks: from all arguments)."""
    ttl: int | None = None
    """Seconds for which a result is used; None for ever."""


class CacheKey(NamedTuple):
    """Where a cached result lies."""

    ns: tuple[str, ...]
    key: str
    ttl: int | None


# -- tracing -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePolicy:
    """What tracers record of a node; the run itself sees everything."""

    process_inputs: Callable[[Any], Any] | None = None
    process_outputs: Callable[[Any], Any] | None = None


def omit_payload(payload: Any) -> dict[str, Any]:
    """For TracePolicy: records nothing of the payload."""
    return {}
