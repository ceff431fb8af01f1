"""The house stands: imports go downwards only, and never in a circle."""

from __future__ import annotations

from pathlib import Path

import pytest

from house import import_graph

PACKAGE = Path(__file__).parents[2] / "src" / "perdure"

FLOORS = (
    ("doors", "errors", "ids", "interrupts", "slotted", "typing", "version", "warnings"),
    ("types", "config", "constants", "context", "memory_policies", "parts", "policies", "serde", "snapshots"),
    ("channels", "cache", "store", "stream", "managed"),
    ("runtime", "checkpoint", "ext", "messages", "callbacks"),
    ("engine",),
    ("inspection",),
    ("workflow",),
    ("graph", "func", "pregel"),
    ("compat", "cli", "testing"),
    ("",),  # the package itself: the short way in to all of them
)
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS, 1) for room in rooms}
GRAPH = import_graph.read(PACKAGE)


def room(module: str) -> str:
    return module.removeprefix("perdure").lstrip(".").partition(".")[0]


def test_every_room_has_a_floor() -> None:
    """A new room is given its place before anything leans on it."""
    assert {room(module) for module in GRAPH} <= FLOOR_OF.keys()


@pytest.mark.parametrize("module", sorted(GRAPH))
def test_imports_go_down(module: str) -> None:
    """A module imports from its own floor and those below it."""
    floor = FLOOR_OF[room(module)]
    upwards = [target for target in GRAPH[module] if FLOOR_OF[room(target)] > floor]
    assert not upwards, f"{module} (floor {floor}) imports {', '.join(sorted(upwards))} from above"


def test_no_module_imports_itself_by_others() -> None:
    """There is no import cycle, lazy imports included."""
    assert import_graph.cycle(GRAPH) == []


def test_no_room_imports_itself_by_others() -> None:
    """Rooms of one floor may lean on each other in one direction only."""
    rooms: dict[str, set[str]] = {}
    for module, targets in GRAPH.items():
        here = rooms.setdefault(room(module), set())
        here.update(room(target) for target in targets)
    assert import_graph.cycle({name: frozenset(to - {name}) for name, to in rooms.items()}) == []


def write(folder: Path, **files: str) -> Path:
    package = folder / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    return package


def test_a_cycle_is_found(tmp_path: Path) -> None:
    """Two modules that import each other are named, also when one does it in a function."""
    package = write(tmp_path, a="from . import b\n", b="def f():\n    from pkg.a import f\n")
    assert import_graph.cycle(import_graph.read(package)) == ["pkg.a", "pkg.b", "pkg.a"]


def test_imports_for_type_checkers_do_not_count(tmp_path: Path) -> None:
    """What stands under TYPE_CHECKING is no arrow; what stands beside it is."""
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pkg.b\nelse:\n    import pkg.c\n"
    package = write(tmp_path, a=text, b="import pkg.a\n", c="")
    assert import_graph.read(package)["pkg.a"] == {"pkg.c"}
