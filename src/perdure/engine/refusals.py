"""What is said about values that cannot be stored."""

from __future__ import annotations

from perdure.errors import UnstorableError


def unstorable(who: str, error: Exception) -> Exception:
    """The complaint about a value that cannot be stored, saying whose it was.

    An error of a user's own serializer keeps its type and text.
    """
    if not isinstance(error, UnstorableError):
        error.add_note(f"{who} a value that could not be stored")
        return error
    where = f"{error.path}, " if error.path else ""
    kind = error.type_name or "value"
    article = "an" if kind[:1].lower() in "aeiou" else "a"
    what = f"{who} {where}{article} {kind}, which cannot be stored"
    if kind.endswith("CallFuture"):
        what += "; it stands for the result of a call: take that with `.result()`"
    elif kind.startswith("_asyncio."):
        what += "; it stands for the result of a call: take that with `await`"
    else:
        what += "; return plain data, or register the class with perdure.serde.register"
    named = UnstorableError(what, path=error.path, type_name=error.type_name)
    named.__cause__ = error
    return named
