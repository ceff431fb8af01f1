"""What is kept beside a checkpoint to find it by: which keys of a config become metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypedDict, cast

__all__ = [
    "EXCLUDED_METADATA_KEYS",
    "CheckpointMetadata",
    "get_checkpoint_metadata",
    "get_serializable_checkpoint_metadata",
    "matches",
]


class CheckpointMetadata(TypedDict, total=False):
    """How a checkpoint came to be; callers' own keys lie beside these."""

    source: str
    """`input`, `loop`, `update` or `fork`."""
    step: int
    """-1 for the first input, 0 for the first checkpoint of the loop, then one more each."""
    parents: dict[str, str]
    """Namespace -> checkpoint id of the enclosing graphs."""
    run_id: str
    counters_since_delta_snapshot: dict[str, list[int]]


EXCLUDED_METADATA_KEYS = frozenset(
    {
        "thread_id",
        "checkpoint_id",
        "checkpoint_ns",
        "checkpoint_map",
        "langgraph_step",
        "langgraph_node",
        "langgraph_triggers",
        "langgraph_path",
        "langgraph_checkpoint_ns",
    }
)
"""Keys of a config that say where, not what: never copied to metadata."""

# Metadata lies in the store in clear, so what looks like a credential stays out of it.
_SECRET = r"(?i)key|token|secret|passw|credential|auth(?!or(?!iz))"
_PRIMITIVES = (str, int, float, bool)


def get_checkpoint_metadata(config: Mapping[str, Any], metadata: Mapping[str, Any]) -> CheckpointMetadata:
    """The metadata to store: `metadata`, then the config's own, then its `configurable`.

    The first to name a key wins. From the config come only strings, numbers and booleans whose
    key is neither reserved nor looks like a credential's.
    """
    merged: dict[str, Any] = {
        key: value.replace("\0", "") if isinstance(value, str) else value for key, value in metadata.items()
    }
    for source in (config.get("metadata"), config.get("configurable")):
        for key, value in (source or {}).items():
            if key not in merged and isinstance(value, _PRIMITIVES) and _may_copy(key):
                merged[key] = value.replace("\0", "") if isinstance(value, str) else value
    return cast(CheckpointMetadata, merged)


def get_serializable_checkpoint_metadata(
    config: Mapping[str, Any], metadata: Mapping[str, Any]
) -> CheckpointMetadata:
    """As `get_checkpoint_metadata`, without the `writes` that old versions kept there."""
    merged = get_checkpoint_metadata(config, metadata)
    cast(dict[str, Any], merged).pop("writes", None)
    return merged


def _may_copy(key: Any) -> bool:
    return (
        isinstance(key, str)
        and not key.startswith("__")
        and key not in EXCLUDED_METADATA_KEYS
        and re.search(_SECRET, key) is None
    )


def matches(metadata: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    """Whether the metadata has these values: compared as JSON, None also for a missing key."""
    return all(_same(metadata.get(key), wanted) for key, wanted in (filter or {}).items())


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)
