"""Brings the modules together that know the kinds of values, in the order in which they are asked."""

from __future__ import annotations

from perdure.serde import containers as containers  # its kinds are in the table already
from perdure.serde import failures, guests, objects
from perdure.serde.tables import RESOLVERS, built_in

__all__ = ["containers", "fill_tables"]


def fill_tables() -> None:
    """Makes every kind known. Repeating it changes nothing."""
    RESOLVERS[:] = [
        objects.registered,
        lambda registry, cls: built_in(cls),
        guests.numpy_value,  # before the built-ins, of which some numpy scalars are subclasses
        guests.pydantic_value,
        objects.class_itself,
        failures.failure,
        objects.data_class,
    ]
