"""Constants, warnings and marks keep the documented spelling."""

from __future__ import annotations

import copy
import pickle

import pytest

from perdure import constants, types
from perdure import warnings as perdure_warnings
from perdure.typing import MISSING
from perdure.version import __version__


def test_reserved_names() -> None:
    """The names that programs and stored data use."""
    values = [
        getattr(constants, name) for name in ("START", "END", "TAG_NOSTREAM", "TAG_HIDDEN", "CONF", "TASKS")
    ]
    assert values == [
        "__start__",
        "__end__",
        "nostream",
        "langsmith:hidden",
        "configurable",
        "__pregel_tasks",
    ]


@pytest.mark.parametrize("name", ["Send", "Interrupt"])
def test_moved_names_warn(name: str) -> None:
    """What moved to `types` is still found, with a warning that says where it is."""
    with pytest.warns(perdure_warnings.PerdureDeprecatedSinceV10, match=f"from perdure.types import {name}"):
        assert getattr(constants, name) is getattr(types, name)


def test_unknown_constants() -> None:
    """Other names are missing as in any module."""
    with pytest.raises(AttributeError, match="NOTHING"):
        constants.NOTHING  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SinceV05", "old. Deprecated in LangGraph V0.5 to be removed in V2.0."),
        ("SinceV10", "old. Deprecated in LangGraph V1.0 to be removed in V2.0."),
        ("SinceV11", "old. Deprecated in LangGraph V1.1 to be removed in V3.0."),
    ],
)
def test_warnings_name_their_versions(name: str, text: str) -> None:
    """The classes of perdure and the documented ones are the same, with the documented text."""
    ours = getattr(perdure_warnings, f"PerdureDeprecated{name}")
    assert ours is getattr(perdure_warnings, f"LangGraphDeprecated{name}")
    warning = ours("old.")
    assert str(warning) == text
    assert isinstance(warning, perdure_warnings.LangGraphDeprecationWarning)
    assert isinstance(warning, DeprecationWarning)


def test_removal_comes_with_the_next_major_version() -> None:
    """A warning that does not say when gives the next major version."""
    warning = perdure_warnings.PerdureDeprecationWarning("old", since=(1, 4))
    assert (warning.since, warning.expected_removal) == ((1, 4), (2, 0))


def test_missing_is_one_object() -> None:
    """Copies and pickles of the mark are the mark, so that `is` holds."""
    assert copy.deepcopy(MISSING) is MISSING
    assert pickle.loads(pickle.dumps(MISSING)) is MISSING
    assert repr(MISSING) == "MISSING"


def test_missing_is_neither_true_nor_false() -> None:
    """A forgotten `is` is noticed."""
    with pytest.raises(TypeError, match="compare it with `is`"):
        bool(MISSING)


def test_version() -> None:
    """The version is that of the installed package's metadata form."""
    assert __version__.count(".") == 2
