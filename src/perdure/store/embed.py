"""From values to texts to vectors: what makes items searchable by meaning."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

__all__ = [
    "AEmbeddingsFunc",
    "Embeddings",
    "EmbeddingsFunc",
    "EmbeddingsLambda",
    "ensure_embeddings",
    "get_text_at_path",
    "tokenize_path",
]

Vectors: TypeAlias = list[list[float]]
EmbeddingsFunc: TypeAlias = Callable[[Sequence[str]], Vectors]
AEmbeddingsFunc: TypeAlias = Callable[[Sequence[str]], Awaitable[Vectors]]


@runtime_checkable
class Embeddings(Protocol):
    """Makes vectors of texts. LangChain's embedding models are such objects."""

    def embed_documents(self, texts: list[str]) -> Vectors: ...
    def embed_query(self, text: str) -> list[float]: ...
    async def aembed_documents(self, texts: list[str]) -> Vectors: ...
    async def aembed_query(self, text: str) -> list[float]: ...


class EmbeddingsLambda:
    """Embeddings of a function, sync or async, from a list of texts to a list of vectors.

    The sync methods of an async function raise ValueError; the async ones of a sync function
    run it in a worker thread.
    """

    def __init__(self, func: EmbeddingsFunc | AEmbeddingsFunc) -> None:
        self.func = func
        self.is_async = inspect.iscoroutinefunction(func) or inspect.iscoroutinefunction(
            getattr(func, "__call__", None)  # noqa: B004 - the method itself is wanted
        )

    def embed_documents(self, texts: list[str]) -> Vectors:
        if self.is_async:
            raise ValueError(
                "the store's embedding function is async: use the async methods of the store "
                "(aput, asearch ...), or give it a sync function"
            )
        return cast(EmbeddingsFunc, self.func)(texts)

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    async def aembed_documents(self, texts: list[str]) -> Vectors:
        if self.is_async:
            return await cast(AEmbeddingsFunc, self.func)(texts)
        from asyncio import to_thread  # Not loaded by programs that never run a loop.

        return await to_thread(cast(EmbeddingsFunc, self.func), texts)

    async def aembed_query(self, text: str) -> list[float]:
        return (await self.aembed_documents([text]))[0]


def ensure_embeddings(embed: Embeddings | EmbeddingsFunc | AEmbeddingsFunc | str | None) -> Embeddings:
    """Embeddings of whatever the user named: an object, a function, or a model of LangChain's
    by its name (`"openai:text-embedding-3-small"`; needs the langchain package)."""
    if embed is None:
        raise ValueError("embed must be given: embeddings, a function, or 'provider:model'")
    if isinstance(embed, str):
        return _by_name(embed)
    if hasattr(embed, "embed_documents"):
        return cast(Embeddings, embed)
    function: Any = embed
    return EmbeddingsLambda(function)


def _by_name(name: str) -> Embeddings:
    try:
        langchain = importlib.import_module("langchain.embeddings")
    except ImportError as exc:
        raise ValueError(
            f"embed={name!r} names a model of LangChain's, which is not installed: "
            "`pip install langchain`, or give an embedding function"
        ) from exc
    return cast(Embeddings, langchain.init_embeddings(name))


# -- paths -------------------------------------------------------------------------------------


def tokenize_path(path: str) -> list[str]:
    """The parts of a path: names, `[0]`, `[*]`, `*` and `{a,b.c}`."""
    if not path or path == "$":
        return [path] if path else []
    tokens: list[str] = []
    rest = path
    while rest:
        if rest[0] == ".":
            rest = rest[1:]
            continue
        length = _token_length(rest)
        tokens.append(rest[:length])
        rest = rest[length:]
    return tokens


def _token_length(text: str) -> int:
    if text[0] in "[{":
        return _closing(text) + 1
    return next((at for at, char in enumerate(text) if char in ".[{"), len(text))


def _closing(text: str) -> int:
    """Index of the bracket that closes the first one, or of the last character."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char in "[{") - (char in "]}")
        if depth == 0:
            return at
    return len(text) - 1


def get_text_at_path(obj: Any, path: str | list[str]) -> list[str]:
    """The texts that a path (or its tokens) leads to.

    Strings, numbers and booleans as text, lists and dicts as JSON with sorted keys; a part
    that is missing gives nothing.
    """
    tokens = tokenize_path(path) if isinstance(path, str) else path
    if not tokens or tokens == ["$"]:
        return [_as_json(obj)]
    return [text for found in _walk(obj, tokens) for text in _texts(found)]


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str | int | float):
        yield str(value)
    elif isinstance(value, list | dict):
        yield _as_json(value)


def _walk(value: Any, tokens: list[str]) -> Iterator[Any]:
    if not tokens:
        yield value
        return
    head, rest = tokens[0], tokens[1:]
    for found in _branches(value, head):
        yield from _walk(found, rest)


def _branches(value: Any, token: str) -> Iterator[Any]:
    if token.startswith("[") and token.endswith("]"):
        yield from _elements(value, token[1:-1].strip())
    elif token.startswith("{") and token.endswith("}"):
        for path in _alternatives(token[1:-1]):
            yield from _walk(value, tokenize_path(path))
    elif token == "*":
        yield from _everything(value)
    elif isinstance(value, dict) and token in value:
        yield value[token]


def _elements(value: Any, index: str) -> Iterator[Any]:
    if not isinstance(value, list):
        return
    if index == "*":
        yield from value
        return
    try:
        yield value[int(index)]
    except (ValueError, IndexError):
        return


def _everything(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _alternatives(text: str) -> Iterator[str]:
    """The parts between the commas that stand outside of brackets."""
    depth = start = 0
    for at, char in enumerate(text):
        depth += (char in "[{") - (char in "]}")
        if char == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()
