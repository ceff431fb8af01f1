"""Which classes may be stored, and under which names."""

from __future__ import annotations

import dataclasses
import sys
from types import ModuleType
from typing import Any

import pytest

from perdure.errors import UnknownTypeError, UnstorableError
from perdure.serde import Codec, Registry
from serde import samples


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    __hash__ = None  # type: ignore[assignment]


def money(**names: Any) -> Codec:
    registry = Registry()
    registry.register(Money, lambda value: value.cents, Money, **names)
    return Codec(registry)


def test_a_registered_class_is_stored_by_its_functions() -> None:
    """Any class can be stored by whoever knows how."""
    codec = money()
    assert codec.decode(codec.encode([(Money(3), {1: Money(4)})])) == [(Money(3), {1: Money(4)})]


def test_registering_is_a_decorator_for_data_classes() -> None:
    """The class is given back."""
    registry = Registry(strict=True)

    @registry.register
    @dataclasses.dataclass
    class Local:
        x: int

    codec = Codec(registry)
    assert codec.decode(codec.encode(Local((1,)))) == Local((1,))  # type: ignore[arg-type]


def test_bytes_of_an_old_name_are_read_by_an_alias() -> None:
    """A class that moved reads what was stored under its former names."""
    data = money(name="old.place:Money").encode(Money(5))
    assert money(name="money", aliases=["old.place:Money"]).decode(data) == Money(5)


def test_a_name_of_one_class_cannot_be_given_to_another() -> None:
    """Bytes must mean one thing."""
    registry = Registry()
    registry.register(samples.Point, name="p")
    with pytest.raises(ValueError, match=r"'p' already names serde\.samples\.Point; give Box"):
        registry.register(samples.Box, name="p")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((samples.Plain,), "serde.samples.Plain is not a data class; register it with encode and decode"),
        ((samples.Plain, str), "give both encode and decode to register Plain, or neither"),
        ((samples.Plain(),), "only classes can be registered"),
        ((dict, list, dict), "dict is stored as it is"),
    ],
)
def test_a_registration_that_could_not_work_is_refused(arguments: Any, message: str) -> None:
    """One is told when registering, not when storing."""
    with pytest.raises(TypeError, match=message):
        Registry().register(*arguments)


def test_registering_later_is_seen() -> None:
    """A class that was refused before is stored once it is registered."""
    registry = Registry()
    codec = Codec(registry)
    with pytest.raises(UnstorableError):
        codec.encode(Money(1))
    registry.register(Money, lambda value: value.cents, Money)
    assert codec.decode(codec.encode(Money(1))) == Money(1)


def test_registrations_of_the_base_count() -> None:
    """A registry built on another knows what that one knows, also what it learns later."""
    base = Registry()
    codec = Codec(Registry(strict=True, base=base))
    base.register(Money, lambda value: value.cents, Money)
    assert codec.decode(codec.encode(Money(1))) == Money(1)


def test_a_strict_registry_stores_nothing_unregistered() -> None:
    """The refusal comes when storing, with the path."""
    with pytest.raises(UnstorableError, match=r"^\['a'\], a .*Point, cannot be stored: only registered"):
        Codec(Registry(strict=True)).encode({"a": samples.Point(1)})


def test_a_strict_registry_reads_nothing_unregistered() -> None:
    """Bytes that another registry wrote are refused by type."""
    data = Codec().encode(samples.Point(1))
    with pytest.raises(UnknownTypeError, match=r"serde\.samples:Point, which is not registered"):
        Codec(Registry(strict=True)).decode(data)


def test_a_strict_registry_knows_allowed_names() -> None:
    """Classes can be allowed by where they lie."""
    registry = Registry(strict=True)
    registry.allow("serde.samples", "Point")
    codec = Codec(registry)
    assert codec.decode(codec.encode([samples.Point(1)])) == [samples.Point(1)]
    with pytest.raises(UnstorableError):
        codec.encode(samples.Box(1))


def test_a_strict_registry_stores_what_is_built_in() -> None:
    """It is about classes of the program only."""
    codec = Codec(Registry(strict=True))
    for value in (samples.MOMENT, {1, (2,)}, int, samples.BERLIN, range(3)):
        assert codec.decode(codec.encode(value)) == value


@pytest.fixture
def vanishing() -> Any:
    """A module that was imported, and is not any more."""
    module = ModuleType("vanishing")
    source = "import dataclasses\n@dataclasses.dataclass\nclass Thing:\n    x: int = 1\n"
    sys.modules["vanishing"] = module
    exec(compile(source, "vanishing.py", "exec"), module.__dict__)
    yield module
    sys.modules.pop("vanishing", None)


def test_a_class_whose_module_is_not_imported_is_named(vanishing: Any) -> None:
    """The error says which class, and what to do."""
    data = Codec().encode([vanishing.Thing()])
    del sys.modules["vanishing"]
    with pytest.raises(UnknownTypeError, match="vanishing:Thing, which is not known here; import its module"):
        Codec().decode(data)


def test_a_class_that_moved_is_found_where_it_can_still_be_imported(vanishing: Any) -> None:
    """A re-export at the old place is enough."""
    data = Codec().encode(vanishing.Thing(5))
    vanishing.Thing = samples.Point
    assert type(Codec().decode(data)) is samples.Point


def test_a_field_that_a_class_got_later_has_its_default() -> None:
    """Old bytes are read by the class as it is now."""

    @dataclasses.dataclass(slots=True)
    class Old:
        x: int

    @dataclasses.dataclass(slots=True)
    class New:
        x: int
        y: tuple[int, ...] = (1,)
        z: list[int] = dataclasses.field(default_factory=list)

    before, after = Registry(), Registry()
    before.register(Old, name="thing")
    after.register(New, name="thing")
    assert Codec(after).decode(Codec(before).encode(Old(3))) == New(3)


def test_a_module_getattr_is_not_asked(vanishing: Any) -> None:
    """Looking for a class runs nothing of the module."""
    data = Codec().encode(vanishing.Thing())
    del vanishing.Thing
    vanishing.__getattr__ = lambda name: samples.Ran.here(name)
    samples.Ran.notes.clear()
    with pytest.raises(UnknownTypeError):
        Codec().decode(data)
    assert samples.Ran.notes == []


def test_a_name_that_means_something_else_is_refused(vanishing: Any) -> None:
    """A class that would be read as another is not stored."""
    thing = vanishing.Thing()
    vanishing.Thing = samples.Point
    with pytest.raises(UnstorableError, match="vanishing:Thing is the name of something else"):
        Codec().encode(thing)


def test_a_class_that_was_defined_anew_is_read_as_it_is_now(vanishing: Any) -> None:
    """Reloading a module, or running a notebook's cell again, keeps bytes readable."""
    thing = vanishing.Thing(4)
    exec(compile("@dataclasses.dataclass\nclass Thing:\n    x: int", "again", "exec"), vanishing.__dict__)
    assert Codec().decode(Codec().encode(thing)) == vanishing.Thing(4)
