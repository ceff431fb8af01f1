"""Workflows as parts of chains: many inputs at once, and LangChain's ways to compose.

Nothing of LangChain is needed for `batch`. To LangChain a workflow is a Runnable: as soon as
LangChain is loaded its class is registered there, and given those methods of a Runnable that it
lacks (`bind`, `with_retry`, `pick` ...), which work by the documented ones.
"""

from __future__ import annotations

import contextvars
import importlib.util
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Config = Mapping[str, Any] | None


class Chainable:
    """What makes a workflow part of chains. Its class has `invoke`, `stream` and their twins."""

    if TYPE_CHECKING:
        name: str
        invoke: Callable[..., Any]
        ainvoke: Callable[..., Any]
        stream: Callable[..., Iterator[Any]]
        astream: Callable[..., AsyncIterator[Any]]

    InputType: Any = Any
    """The type that LangChain shows for inputs."""
    OutputType: Any = Any
    """The type that LangChain shows for outputs."""

    def __init__(self) -> None:
        _meet(type(self))

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The class. Whoever checks what this is asks for it: LangChain too, loaded only now perhaps."""
        _meet(type(self))
        return type(self)

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """The workflow's name.

        Args:
            suffix: Put behind it.
            name: Taken instead of it.
        """
        found = name or self.name
        if not suffix:
            return found
        return found + suffix if found[:1].isupper() else f"{found}_{suffix.lower()}"

    # many inputs ------------------------------------------------------------------------

    def batch(
        self, inputs: Sequence[Any], config: Config | Sequence[Config] = None, *,
        return_exceptions: bool = False, **options: Any,
    ) -> list[Any]:  # fmt: skip
        """Runs once for each input, on threads, and returns the results in the order of the inputs.

        Args:
            config: One for all, or one for each; `max_concurrency` is how many run at once.
            return_exceptions: An error stands in the place of its result; else, when all have
                ended, the first one is raised.
            options: As for `invoke`.

        Raises:
            ValueError: There are not as many configs as inputs.
        """
        from concurrent.futures import ThreadPoolExecutor

        configs = _configs(config, len(inputs))
        if not inputs:
            return []

        def one(given: Any, config: Config) -> Any:
            try:
                return self.invoke(given, config, **options)
            except Exception as error:
                if return_exceptions:
                    return error
                raise

        with ThreadPoolExecutor(_limit(configs) or None) as threads:
            running = [
                threads.submit(contextvars.copy_context().run, one, given, config)
                for given, config in zip(inputs, configs, strict=True)
            ]
            return [future.result() for future in running]

    async def abatch(
        self, inputs: Sequence[Any], config: Config | Sequence[Config] = None, *,
        return_exceptions: bool = False, **options: Any,
    ) -> list[Any]:  # fmt: skip
        """`batch` for async callers, on the event loop."""
        import asyncio

        configs = _configs(config, len(inputs))
        room = asyncio.Semaphore(_limit(configs) or max(1, len(inputs)))

        async def one(given: Any, config: Config) -> Any:
            async with room:
                return await self.ainvoke(given, config, **options)

        runs = [one(given, config) for given, config in zip(inputs, configs, strict=True)]
        results = await asyncio.gather(*runs, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not return_exceptions:
                raise result
        return results

    # composing --------------------------------------------------------------------------

    def __or__(self, other: Any) -> Any:
        """This workflow, then another Runnable, function or dict of them."""
        runnable = _runnable(type(self))
        return NotImplemented if runnable is None else runnable.__or__(self, other)

    def __ror__(self, other: Any) -> Any:
        """Another Runnable, function or dict of them, then this workflow."""
        runnable = _runnable(type(self))
        return NotImplemented if runnable is None else runnable.__ror__(self, other)

    def transform(self, input: Iterator[Any], config: Config = None, **options: Any) -> Iterator[Any]:
        """Runs on the sum of the chunks of an input, as a step of a chain that is streamed.

        Yields the state as it grows (`stream_mode="values"`, unless another one is asked for), so
        that the next step's input is the result.
        """
        chunks = list(input)
        if chunks:
            yield from self.stream(_sum(chunks), config, **{"stream_mode": "values", **options})

    async def atransform(
        self, input: AsyncIterator[Any], config: Config = None, **options: Any
    ) -> AsyncIterator[Any]:
        """`transform` for async callers."""
        chunks = [chunk async for chunk in input]
        if not chunks:
            return
        events: Any = self.astream(_sum(chunks), config, **{"stream_mode": "values", **options})
        try:
            async for item in events:
                yield item
        finally:
            await events.aclose()


def langchain_events(
    workflow: Any, input: Any, config: Config, version: str, options: Mapping[str, Any]
) -> AsyncIterator[Any]:
    """LangChain's events, versions "v1" and "v2", of a workflow and of all that it calls.

    Raises:
        NotImplementedError: LangChain is not installed.
    """
    if _runnable(type(workflow)) is None:
        raise NotImplementedError(
            f"events of version {version!r} are made by langchain-core, which is not installed; "
            "install it, or ask for version='v3'"
        )
    from perdure.ext.langchain.adopting import astream_events

    return astream_events(workflow, input, config, version, options)


_met: set[type] = set()


def _meet(kind: type) -> None:
    """Makes a class known to LangChain, once it is loaded."""
    if kind not in _met and "langchain_core.runnables" in sys.modules:
        from perdure.ext.langchain.adopting import adopt

        _met.add(kind)
        adopt(kind)


def _runnable(kind: type) -> Any:
    """LangChain's Runnable; None where LangChain is not installed."""
    if "langchain_core" not in sys.modules and importlib.util.find_spec("langchain_core") is None:
        return None
    from langchain_core.runnables import Runnable

    _meet(kind)
    return Runnable


def _configs(config: Config | Sequence[Config], count: int) -> list[Config]:
    if config is None or isinstance(config, Mapping):
        return [config] * count
    if len(config) != count:
        raise ValueError(f"{count} inputs need as many configs, or one for all; {len(config)} were given")
    return list(config)


def _limit(configs: Sequence[Config]) -> int | None:
    limit: int | None = (configs[0] or {}).get("max_concurrency") if configs else None
    return limit


def _sum(chunks: Sequence[Any]) -> Any:
    """The chunks added up; the last one where they do not add."""
    total = chunks[0]
    for chunk in chunks[1:]:
        try:
            total = total + chunk
        except TypeError:
            total = chunk
    return total
