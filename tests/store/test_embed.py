"""Paths lead to texts, and many things can make vectors of them."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.store.embed import EmbeddingsLambda, ensure_embeddings, get_text_at_path, tokenize_path

VALUE: dict[str, Any] = {
    "a": {"b": [{"c": 1, "x": "q"}, {"c": True}, {"c": None}]},
    "t": "text",
    "n": 1.5,
    "l": ["x", "y"],
    "e": [],
    "nest": [[1, 2], [3]],
}


@pytest.mark.parametrize(
    ("path", "tokens"),
    [
        ("", []),
        ("$", ["$"]),
        ("a", ["a"]),
        ("a.b[0].c", ["a", "b", "[0]", "c"]),
        ("a.b[*]", ["a", "b", "[*]"]),
        ("a..b", ["a", "b"]),
        ("nest[*][-1]", ["nest", "[*]", "[-1]"]),
        ("{t,a.b[0].c}", ["{t,a.b[0].c}"]),
        ("a.{b,c}.d", ["a", "{b,c}", "d"]),
        ("a.b[0", ["a", "b", "[0"]),
    ],
)
def test_tokens(path: str, tokens: list[str]) -> None:
    """A path falls into names, indexes and alternatives."""
    assert tokenize_path(path) == tokens


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("t", ["text"]),
        ("n", ["1.5"]),
        ("l", ['["x", "y"]']),
        ("l[*]", ["x", "y"]),
        ("l[-1]", ["y"]),
        ("l[9]", []),
        ("l[x]", []),
        ("t[0]", []),
        ("e", ["[]"]),
        ("zz", []),
        ("t.zz", []),
        ("a.b[0]", ['{"c": 1, "x": "q"}']),
        ("a.b[*].c", ["1", "True"]),
        ("a.b[*].{c,x}", ["1", "q", "True"]),
        ("nest[*][0]", ["1", "3"]),
        ("nest.*", ["[1, 2]", "[3]"]),
        ("a.*[1].c", ["True"]),
        ("{t,n}", ["text", "1.5"]),
        ("{t, a.b[0].{c,x}}", ["text", "1", "q"]),
        ("{t", []),
    ],
)
def test_texts(path: str, texts: list[str]) -> None:
    """Scalars are text, lists and dicts are JSON, what is missing is nothing."""
    assert get_text_at_path(VALUE, path) == texts
    assert get_text_at_path(VALUE, tokenize_path(path)) == texts


@pytest.mark.parametrize("path", ["", "$"])
def test_the_whole_value(path: str) -> None:
    """The root is JSON with sorted keys, in its own letters."""
    assert get_text_at_path({"b": "é", "a": [1]}, path) == ['{"a": [1], "b": "é"}']


def embed(texts: Any) -> list[list[float]]:
    return [[float(len(text))] for text in texts]


class Model:
    """Embeddings as LangChain has them."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return embed(texts)

    def embed_query(self, text: str) -> list[float]:
        return embed([text])[0]


def test_functions_become_embeddings() -> None:
    """A function of texts serves for documents and queries."""
    made = ensure_embeddings(embed)
    assert made.embed_documents(["a", "bb"]) == [[1.0], [2.0]]
    assert made.embed_query("ccc") == [3.0]


def test_embeddings_stay_themselves() -> None:
    """An object with the methods of embeddings is used as it is."""
    model: Any = Model()
    assert ensure_embeddings(model) is model


def test_objects_with_an_async_call_are_async() -> None:
    """A callable object is as async as its call."""

    class Remote:
        async def __call__(self, texts: Any) -> list[list[float]]:
            return embed(texts)

    assert EmbeddingsLambda(Remote()).is_async
    assert not EmbeddingsLambda(embed).is_async


def test_something_must_be_named() -> None:
    """An index without embeddings says what it takes."""
    with pytest.raises(ValueError, match="embed must be given"):
        ensure_embeddings(None)


def test_names_of_models_need_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model named by text says what has to be installed."""
    import sys

    monkeypatch.setitem(sys.modules, "langchain.embeddings", None)
    with pytest.raises(ValueError, match="embed='openai:small' names a model of LangChain's"):
        ensure_embeddings("openai:small")
