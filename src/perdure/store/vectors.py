"""Which items are nearest to a query."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TypeAlias

Vector: TypeAlias = tuple[float, ...]
"""Of length one, so that likeness is a product."""


def unit(vector: Sequence[float], dims: int | None) -> Vector:
    """The vector's direction. Raises ValueError if it does not have `dims` numbers."""
    if dims is not None and len(vector) != dims:
        raise ValueError(f"the embedding has {len(vector)} numbers, but the index has dims={dims}")
    length = math.sqrt(sum(x * x for x in vector))
    if length == 0:
        return tuple(0.0 for _ in vector)
    return tuple(float(x) / length for x in vector)


def cosine(one: Vector, other: Vector) -> float:
    """Likeness of two directions, from -1 to 1."""
    return math.fsum(map(operator.mul, one, other))


def best(query: Vector, vectors: Sequence[Vector]) -> float:
    """Likeness of the vector that is nearest to the query."""
    return max(cosine(query, vector) for vector in vectors)
