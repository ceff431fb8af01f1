"""The default serializer under its documented name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from perdure.errors import UnstorableError
from perdure.serde.codec import Codec
from perdure.serde.registry import Registry, default_registry

__all__ = ["JsonPlusSerializer"]

Symbol: TypeAlias = "type | tuple[str, ...]"
"""A class, or where it lies: `("package.module", "Name")`."""

_UNSET: Any = object()


class JsonPlusSerializer:
    """Values as tagged bytes, exactly, and without running code when they are read.

    Built-in values, data classes, exceptions, messages and documents of LangChain and perdure's
    own values come back as they were. What cannot is refused with UnstorableError.

    Args:
        pickle_fallback: Store what is refused by `pickle`. Reading such bytes runs code that
            they name: only for stores that nobody else can write to.
        allowed_json_modules: Accepted for compatibility; no JSON is read here.
        allowed_msgpack_modules: By default (and for True) every data class that is found in an
            imported module may be read. None or an empty list allows none but the built-in table,
            messages, documents and registered classes; a list adds these classes to them.
            The environment variable PERDURE_STRICT_TYPES turns the default into None.
    """

    def __init__(
        self,
        *,
        pickle_fallback: bool = False,
        allowed_json_modules: Iterable[Symbol] | Literal[True] | None = None,
        allowed_msgpack_modules: Iterable[Symbol] | Literal[True] | None = _UNSET,
        __unpack_ext_hook__: Any = None,
    ) -> None:
        if __unpack_ext_hook__ is not None:
            raise TypeError(
                "__unpack_ext_hook__ is not supported: register the class with perdure.serde.register"
            )
        self.pickle_fallback = pickle_fallback
        self.codec = Codec(_registry(allowed_msgpack_modules))

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The tag and the bytes of a value.

        Raises:
            UnstorableError: Something in it cannot be stored; its `path` says where.
        """
        try:
            return self.codec.dumps_typed(obj)
        except UnstorableError:
            if not self.pickle_fallback:
                raise
            import pickle  # only programs that ask for it need it

            return "pickle", pickle.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value of what `dumps_typed` gave.

        Raises:
            CorruptBytesError: The bytes are not ours, or not all of them.
            UnknownTypeError: They name a class that may not be built here.
            NotImplementedError: The tag is another serializer's, or `pickle` without the fallback.
        """
        if data[0] == "pickle" and self.pickle_fallback:
            import pickle  # only programs that ask for it need it

            return pickle.loads(data[1])
        return self.codec.loads_typed(data)

    def with_allowlist(self, extra: Iterable[Symbol]) -> JsonPlusSerializer:
        """A serializer that may read these classes too; itself where that changes nothing."""
        known = self.codec.registry
        if not known.strict:
            return self
        new = [symbol for symbol in map(_named, extra) if not known.allows(*symbol)]
        if not new:
            return self
        registry = Registry(strict=True, base=known)
        for module, name in new:
            registry.allow(module, name)
        extended = JsonPlusSerializer(pickle_fallback=self.pickle_fallback)
        extended.codec = Codec(registry)
        return extended

    with_msgpack_allowlist = with_allowlist


def _registry(allowed: Any) -> Registry:
    if allowed is True or (allowed is _UNSET and not _strict_by_environment()):
        return default_registry
    registry = Registry(strict=True, base=default_registry)
    for module, name in map(_named, () if allowed is _UNSET or allowed is None else allowed):
        registry.allow(module, name)
    return registry


def _strict_by_environment() -> bool:
    return os.environ.get("PERDURE_STRICT_TYPES", "").lower() in ("1", "true", "yes")


def _named(symbol: Symbol) -> tuple[str, str]:
    if isinstance(symbol, type):
        return symbol.__module__, symbol.__qualname__
    *modules, name = symbol
    return ".".join(modules), name
