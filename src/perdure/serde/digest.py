"""Digests by which a call's arguments and a question's payload are known again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.serde.codec import Codec

_codec = Codec()

digest = _codec.digest


def digest_call(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Digest of a call's arguments; the order of keyword arguments does not count."""
    ordered = kwargs if len(kwargs) < 2 else dict(sorted(kwargs.items()))
    return digest((args, ordered))
