"""What is said before a run: a workflow's settings, their values, and configs joined to one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from perdure.config import RunnableConfig
from perdure.engine.guest import joined_callbacks
from perdure.slotted import field, slotted
from perdure.types import Durability

if TYPE_CHECKING:
    from perdure.engine.program import Program

DURABILITIES: tuple[str, ...] = get_args(Durability)
ON_BUSY = ("reject", "wait")
ON_DIVERGENCE = ("error", "warn", "allow")
_CONFIG_KEYS = frozenset(RunnableConfig.__annotations__)


@slotted
class Setup:
    """A workflow's own settings."""

    program: Program
    checkpointer: Any = None
    store: Any = None
    cache: Any = None
    interrupt_before: Sequence[str] | str = ()
    interrupt_after: Sequence[str] | str = ()
    durability: str | None = None
    on_busy: str = "reject"
    config: Mapping[str, Any] = field(default_factory=dict)
    step_timeout: float | None = None
    context_schema: Any = None


def checked(name: str, value: str, allowed: Sequence[str]) -> str:
    """The value of a setting. Raises ValueError when it is none that the setting can have."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    return value


def known_keys(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The config with keys of the caller's own moved to where they belong, `configurable`."""
    if not config:
        return {}
    if not isinstance(config, Mapping):
        raise TypeError(
            f"config must be a dict such as {{'configurable': {{'thread_id': ...}}}}, not {config!r}"
        )
    known = {key: value for key, value in config.items() if key in _CONFIG_KEYS and value is not None}
    others = {key: value for key, value in config.items() if key not in _CONFIG_KEYS}
    if others:
        known["configurable"] = {**others, **(known.get("configurable") or {})}
    return known


def merge_configs(*configs: Mapping[str, Any]) -> dict[str, Any]:
    """One config of several, later ones over earlier ones: tags add up, metadata and configurable
    merge key by key, callbacks join, all else replaces."""
    merged: dict[str, Any] = {}
    for config in filter(None, configs):
        for key, value in config.items():
            old = merged.get(key)
            if key == "tags" and old:
                merged[key] = [*old, *(tag for tag in value if tag not in old)]
            elif key in ("metadata", "configurable") and old:
                merged[key] = {**old, **value}
            elif key == "callbacks":
                merged[key] = joined_callbacks(old, value)
            else:
                merged[key] = value
    return merged
