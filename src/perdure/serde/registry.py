"""Which types may live in stored bytes, and by which names.

Bytes are never code: reading them imports no module that they name and calls nothing that they
name. A class is built again when the program registered it, or else, by default, when it is
found in a module that is imported already and its instances are plain data (see `shapes`).
A strict registry builds registered classes only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, TypeVar, overload
from weakref import WeakKeyDictionary, WeakValueDictionary

from perdure.serde.faults import Refusal, type_name, unknown_type
from perdure.serde.shapes import PLAIN_CLASSES, shape_of
from perdure.serde.tables import NATIVE, built_in
from perdure.slotted import slotted

ClassT = TypeVar("ClassT", bound=type)
ValueT = TypeVar("ValueT")

HOMES: dict[str, tuple[str, ...]] = {
    "perdure": (
        "perdure.errors",
        "perdure.interrupts",
        "perdure.memory_policies",
        "perdure.policies",
        "perdure.snapshots",
        "perdure.types",
        "perdure.store.base",
        "perdure.checkpoint.serde.types",
    ),
    "langchain_core": (
        *(f"langchain_core.messages.{kind}" for kind in ("human", "ai", "system", "tool", "modifier")),
        *(f"langchain_core.messages.{kind}" for kind in ("base", "chat", "function")),
        "langchain_core.documents.base",
    ),
    "pydantic": ("pydantic",),
    "collections": ("collections",),
}
"""By top-level package: modules that may be imported to find a class. Names of our own choice."""

_SAFE_PACKAGES = ("langchain_core.messages", "langchain_core.documents")

_UNNAMED_BUILTINS = {
    "NoneType": type(None),
    "ellipsis": type(...),
    "NotImplementedType": type(NotImplemented),
}


_local: WeakValueDictionary[str, type] = WeakValueDictionary()
"""Classes that were stored by this process and that no module holds, as those defined in a
function; by name."""


@slotted(frozen=True)
class Entry:
    """A registered class."""

    name: str
    encode: Callable[[Any], Any] | None
    decode: Callable[[Any], Any] | None


class Registry:
    """Names of classes, and what may be done with them.

    Args:
        strict: Build no class but registered ones, the built-in table's, LangChain's messages
            and documents, and perdure's own values.
        base: Another registry whose registrations count here as well.
    """

    def __init__(self, *, strict: bool = False, base: Registry | None = None) -> None:
        self.strict = strict
        self._base = base
        self._entries: dict[type, Entry] = {}
        self._classes: dict[str, type] = {}
        self._allowed: dict[str, str] = {}
        self.cache: WeakKeyDictionary[type, Any] = WeakKeyDictionary()
        """What encoders know of classes that are not registered; theirs to fill."""

    @overload
    def register(self, cls: ClassT, *, name: str | None = None, aliases: Iterable[str] = ()) -> ClassT: ...
    @overload
    def register(
        self,
        cls: type[ValueT],
        encode: Callable[[ValueT], Any],
        decode: Callable[[Any], ValueT],
        *,
        name: str | None = None,
        aliases: Iterable[str] = (),
    ) -> type[ValueT]: ...
    def register(
        self,
        cls: Any,
        encode: Callable[[Any], Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
        *,
        name: str | None = None,
        aliases: Iterable[str] = (),
    ) -> Any:
        """Lets a class live in stored bytes. Usable as a decorator for data classes.

        Args:
            cls: The class. Instances of its subclasses are not meant.
            encode: Turns an instance into a value that can be stored.
            decode: Makes an instance from what `encode` gave. Left out together with `encode`
                where the class is plain data, which is stored attribute by attribute.
            name: What the bytes call it; by default `module:qualified name`.
            aliases: Names that the class had before, so that old bytes can still be read.

        Returns:
            The class.
        """
        self._check(cls, encode, decode)
        entry = Entry(name or qualified(cls), encode, decode)
        for known in (entry.name, *aliases):
            other = self._classes.get(known)
            if other is not None and other is not cls and qualified(other) != qualified(cls):
                raise ValueError(
                    f"{known!r} already names {type_name(other)}; give {cls.__name__} another name"
                )
        self._entries[cls] = entry
        for known in (entry.name, *aliases):
            self._classes[known] = cls
        return cls

    def _check(self, cls: Any, encode: Any, decode: Any) -> None:
        if not isinstance(cls, type):
            raise TypeError(f"only classes can be registered, not {cls!r}")
        if (encode is None) != (decode is None):
            raise TypeError(f"give both encode and decode to register {cls.__name__}, or neither")
        if cls in NATIVE or built_in(cls) is not None:
            raise TypeError(f"{type_name(cls)} is stored as it is; register a subclass, or nothing")
        if encode is None and shape_of(cls) is None:
            raise TypeError(
                f"{type_name(cls)} is not a data class; register it with encode and decode functions"
            )

    def allow(self, module: str, qualname: str) -> None:
        """Allows a data class by name. Its module is imported when bytes name the class."""
        self._allowed[f"{module}:{qualname}"] = module

    def allows(self, module: str, qualname: str) -> bool:
        """Whether a data class of that name may be built here without being registered."""
        return not self.strict or self._is_safe(f"{module}:{qualname}")

    def _allowed_module(self, name: str) -> str | None:
        found = self._allowed.get(name)
        if found is None and self._base is not None:
            return self._base._allowed_module(name)
        return found

    # -- from classes to names ---------------------------------------------------------------

    def entry(self, cls: type) -> Entry | None:
        """The registration of a class, here or in the base."""
        found = self._entries.get(cls)
        if found is None and self._base is not None:
            return self._base.entry(cls)
        return found

    def name_of(self, cls: type, *, checked: bool = True) -> str:
        """The name by which `find` finds the class. Raises Refusal when it may not be stored,
        unless it is not `checked`."""
        entry = self.entry(cls)
        if entry is not None:
            return entry.name
        name = qualified(cls)
        if checked and self.strict and not self._is_safe(name):
            raise Refusal("only registered classes may be stored here; register it")
        found = _lookup(name)
        if found is None:
            _local[name] = cls  # can be read by this process only
        elif checked and found is not cls and qualified(found) != name:
            raise Refusal(f"{name} is the name of something else; register the class under another name")
        return name

    def _is_safe(self, name: str) -> bool:
        module = name.partition(":")[0]
        if self._allowed_module(name) or name in PLAIN_CLASSES or module == "builtins":
            return True
        return module in HOMES["perdure"] or module.startswith(_SAFE_PACKAGES)

    # -- from names to classes ---------------------------------------------------------------

    def find(self, name: str) -> type:
        """The class of that name. Raises UnknownTypeError when it may not or cannot be built."""
        if type(name) is not str:
            raise ValueError("a class is named by something that is not text")
        registered = self._registered(name)
        if registered is not None:
            return registered
        found = self._found(name)
        if self.strict and not self._is_safe(name if found is None else qualified(found)):
            raise unknown_type(name, "is not registered; register the class to read them")
        if found is None:
            raise unknown_type(
                name, "is not known here; import its module, or register the class, to read them"
            )
        return found

    def _registered(self, name: str) -> type | None:
        found = self._classes.get(name)
        if found is None and self._base is not None:
            return self._base._registered(name)
        return found

    def _found(self, name: str) -> type | None:
        found = _lookup(name) or _local.get(name)
        if found is not None:
            return found
        home = self._allowed_module(name)
        for module in (home,) if home else HOMES.get(name.partition(":")[0].partition(".")[0], ()):
            try:
                import_module(module)
            except ImportError:
                continue
            found = _lookup(name)
            if found is not None:
                return found
        return None


def qualified(cls: type) -> str:
    """The name of a class in stored bytes, unless it is registered under another."""
    return f"{cls.__module__}:{cls.__qualname__}"


def _lookup(name: str) -> type | None:
    # Reads namespaces only: a module's `__getattr__` could import, a metaclass's could run.
    module, _, qualname = name.partition(":")
    namespace: Any = getattr(sys.modules.get(module), "__dict__", None)
    if module == "builtins" and qualname in _UNNAMED_BUILTINS:
        return _UNNAMED_BUILTINS[qualname]
    found: Any = None
    for part in qualname.split("."):
        if namespace is None or part not in namespace:
            return None
        found = namespace[part]
        namespace = found.__dict__ if isinstance(found, type) else None
    return found if isinstance(found, type) else None


default_registry = Registry()
"""The registry that is used where no other is named."""

register = default_registry.register
