"""The object users hold: a compiled graph or an entrypoint, to run, stream and look at.

Methods come in pairs, one for sync and one for async callers; what they share lies in the
rooms below.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure import engine, inspection
from perdure.engine.keys import namespaces_of_nodes
from perdure.engine.setup import Setup, merge_configs
from perdure.ext.chains import Chainable, langchain_events
from perdure.types import ensure_valid_checkpointer

if TYPE_CHECKING:
    from perdure.cache.base import BaseCache
    from perdure.config import RunnableConfig
    from perdure.engine.program import Program
    from perdure.snapshots import StateSnapshot, StateUpdate
    from perdure.stream.run_stream import GraphRunStream


class Workflow(Chainable):
    """A program with its saver, store and settings. Made by `@entrypoint` and `StateGraph.compile`.

    Every method that runs takes the keyword arguments of `invoke`.
    """

    __perdure_workflow__ = True

    def __init__(
        self,
        program: Program,
        *,
        checkpointer: Any = None,
        store: Any = None,
        cache: Any = None,
        interrupt_before: Sequence[str] | str = (),
        interrupt_after: Sequence[str] | str = (),
        debug: bool = False,
        name: str | None = None,
        context_schema: Any = None,
        stream_mode: str = "updates",
        durability: str | None = None,
        on_busy: str = "reject",
    ) -> None:
        self.program = program
        self.name = name or program.name
        self.debug = debug
        self.stream_mode = stream_mode
        self.context_schema = context_schema
        self.setup = Setup(
            program,
            checkpointer=ensure_valid_checkpointer(checkpointer),
            store=store,
            cache=cache,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            durability=durability,
            on_busy=on_busy,
            context_schema=context_schema,
        )
        super().__init__()

    # running ----------------------------------------------------------------------------

    def invoke(
        self, input: Any, config: RunnableConfig | Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        """Runs to the end, or to the next question, and returns the result.

        Args:
            input: The workflow's input; None goes on where the thread stopped; a `Command` answers
                questions, updates the state, or says where to go.
            config: `{"configurable": {"thread_id": ...}}` names the thread; further keys as in
                `RunnableConfig`.
            options: `context`, `durability` ("sync", "async", "exit"), `control` (a RunControl),
                `interrupt_before`, `interrupt_after` (node names or "*"), `output_keys`,
                `stream_mode` (anything but "values": the list of its chunks is returned),
                `print_mode`, `version` ("v1", "v2"), `on_busy` ("reject", "wait"),
                `on_divergence` ("error", "warn", "allow").

        Returns:
            The value of an entrypoint, or a dict of the output keys of a graph; with a question
            open the questions are under `__interrupt__`. A `GraphOutput` for version "v2".

        Raises:
            EmptyInputError: There is nothing to run.
            GraphDrained: The control asked for a drain, and work remains.
            GraphRecursionError: The supersteps are used up.
            ThreadBusyError: Another run holds the thread.
            NonDeterminismError: The code does not match the record.
            UnknownInterruptError: The answer answers nothing that is open.
            UnstorableError: An input, a result or the output cannot be stored.
            Exception: What a task raised and nobody caught.
        """
        return engine.invoke(self, engine.Call.of("invoke", input, config, options))

    async def ainvoke(
        self, input: Any, config: RunnableConfig | Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        """`invoke` for async callers; sync tasks and nodes run on worker threads."""
        return await engine.ainvoke(self, engine.Call.of("ainvoke", input, config, options))

    def stream(
        self, input: Any, config: RunnableConfig | Mapping[str, Any] | None = None, **options: Any
    ) -> Iterator[Any]:
        """Runs as the returned iterator is read, and yields what happens.

        Args:
            input, config: As for `invoke`.
            options: As for `invoke`, and `stream_mode` (one of "values", "updates", "custom",
                "messages", "tasks", "checkpoints", "debug", or several), `subgraphs` (also what
                nested workflows do).
        """
        return engine.stream(self, lambda: engine.Call.of("stream", input, config, options))

    def astream(
        self, input: Any, config: RunnableConfig | Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """`stream` for async callers."""
        return engine.astream(self, lambda: engine.Call.of("astream", input, config, options))

    def stream_events(
        self, input: Any, config: RunnableConfig | Mapping[str, Any] | None = None, *, version: str = "v2",
        **options: Any,
    ) -> GraphRunStream:  # fmt: skip
        """A run as an object: `.output`, `.interrupts`, `.interrupted`, `.values`. Nothing runs
        until one of them is read. Only version "v3" exists for sync callers.

        Args:
            options: As for `stream`, but `stream_mode` and `subgraphs`; and besides
                `transformers`, which make projections of your own, and `keep`, names of
                projections (True for all) that keep their items until they are read.
        """
        from perdure.stream.opening import open_stream

        return open_stream(self, input, config, version, options)

    def astream_events(
        self, input: Any, config: RunnableConfig | Mapping[str, Any] | None = None, *, version: str = "v2",
        **options: Any,
    ) -> Any:  # fmt: skip
        """`stream_events` for async callers; await it. Bad arguments are refused at the call.

        Versions "v1" and "v2" are LangChain's own events, of this workflow and of all that it
        calls: an async iterator, filtered by LangChain's `include_names`, `exclude_tags` ...
        """
        if version in ("v1", "v2"):
            return langchain_events(self, input, config, version, options)
        from perdure.stream.opening import aopen_stream

        return aopen_stream(self, input, config, version, options)

    # looking ----------------------------------------------------------------------------

    def get_state(
        self, config: RunnableConfig | Mapping[str, Any], *, subgraphs: bool = False
    ) -> StateSnapshot:
        """A thread as it stands: values, what is due next, open questions, finished calls.

        Raises:
            ValueError: The workflow has no saver, or the config no thread id.
        """
        return inspection.get_state(self, config, subgraphs=subgraphs)

    async def aget_state(
        self, config: RunnableConfig | Mapping[str, Any], *, subgraphs: bool = False
    ) -> StateSnapshot:
        """`get_state` for async callers."""
        return await inspection.aget_state(self, config, subgraphs=subgraphs)

    def get_state_history(
        self,
        config: RunnableConfig | Mapping[str, Any],
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """The checkpoints of a thread, newest first.

        Args:
            filter: Metadata that must be equal.
            before: A config with a checkpoint id; only older ones.
            limit: How many at most.
        """
        yield from inspection.get_state_history(self, config, filter=filter, before=before, limit=limit)

    async def aget_state_history(
        self,
        config: RunnableConfig | Mapping[str, Any],
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """`get_state_history` for async callers."""
        async for snapshot in inspection.aget_state_history(
            self, config, filter=filter, before=before, limit=limit
        ):
            yield snapshot

    def update_state(
        self,
        config: RunnableConfig | Mapping[str, Any],
        values: Any,
        as_node: str | None = None,
        task_id: str | None = None,
    ) -> RunnableConfig:
        """Writes into a thread as if a node had, and returns the config of the new checkpoint.

        Args:
            values: What the node would have returned.
            as_node: The node; its edges are followed. None where it is clear who wrote last.
            task_id: Whose result is filled in.

        Raises:
            InvalidUpdateError: It is not clear which node is meant, or it does not exist.
            ThreadBusyError: A run holds the thread.
        """
        return inspection.update_state(self, config, values, as_node, task_id)

    async def aupdate_state(
        self,
        config: RunnableConfig | Mapping[str, Any],
        values: Any,
        as_node: str | None = None,
        task_id: str | None = None,
    ) -> RunnableConfig:
        """`update_state` for async callers."""
        return await inspection.aupdate_state(self, config, values, as_node, task_id)

    def bulk_update_state(
        self, config: RunnableConfig | Mapping[str, Any], supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Applies several updates, one checkpoint for each inner sequence; gives the last config.

        Raises:
            ValueError: There is nothing to apply.
            InvalidUpdateError: Several updates in one checkpoint do not all name their node.
        """
        return inspection.bulk_update_state(self, config, supersteps)

    async def abulk_update_state(
        self, config: RunnableConfig | Mapping[str, Any], supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """`bulk_update_state` for async callers."""
        return await inspection.abulk_update_state(self, config, supersteps)

    def get_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> Iterator[tuple[str, Workflow]]:
        """The workflows that nodes of this one contain, as (name, workflow).

        Args:
            namespace: Only the one at this namespace, and those inside it.
            recurse: Also those inside them, names joined by `|`.
        """
        return inspection.get_subgraphs(self, namespace, recurse=recurse)

    async def aget_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> AsyncIterator[tuple[str, Workflow]]:
        """`get_subgraphs` for async callers."""
        for item in inspection.get_subgraphs(self, namespace, recurse=recurse):
            yield item

    # settings ---------------------------------------------------------------------------

    def with_config(self, config: RunnableConfig | Mapping[str, Any] | None = None, **more: Any) -> Workflow:
        """A copy with settings merged into those that every run of it starts from."""
        other = self.copy()
        other.setup.config = merge_configs(self.setup.config, config or {}, more)
        return other

    def copy(self, update: Mapping[str, Any] | None = None) -> Workflow:
        """A copy that shares nodes and channels, with some attributes replaced."""
        other = copy.copy(self)
        other.setup = copy.copy(self.setup)
        for name, value in (update or {}).items():
            setattr(other, name, value)
        return other

    @property
    def config(self) -> Mapping[str, Any]:
        """The config that every run starts from."""
        return self.setup.config

    @property
    def checkpointer(self) -> Any:
        """The saver; None, True or False as given."""
        return self.setup.checkpointer

    @checkpointer.setter
    def checkpointer(self, value: Any) -> None:
        self.setup.checkpointer = ensure_valid_checkpointer(value)

    @property
    def store(self) -> Any:
        """Memory across threads."""
        return self.setup.store

    @store.setter
    def store(self, value: Any) -> None:
        self.setup.store = value

    @property
    def cache(self) -> Any:
        """Where results are kept that a cache policy names."""
        return self.setup.cache

    @cache.setter
    def cache(self, value: Any) -> None:
        self.setup.cache = value

    def clear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Forgets cached results of these nodes, or of all.

        Raises:
            ValueError: The workflow has no cache.
        """
        self._own_cache().clear(namespaces_of_nodes(self.program, nodes))

    async def aclear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """`clear_cache` for async callers."""
        await self._own_cache().aclear(namespaces_of_nodes(self.program, nodes))

    def _own_cache(self) -> BaseCache[Any]:
        if self.cache is None:
            raise ValueError(f"No cache is set for {self.name!r}: give it one, e.g. cache=InMemoryCache()")
        cache: BaseCache[Any] = self.cache
        return cache

    @property
    def step_timeout(self) -> float | None:
        """Limit of each superstep, in seconds."""
        return self.setup.step_timeout

    @step_timeout.setter
    def step_timeout(self, value: float | None) -> None:
        self.setup.step_timeout = value

    @property
    def nodes(self) -> Mapping[str, Any]:
        """The nodes by name."""
        return self.program.nodes

    @property
    def channels(self) -> Mapping[str, Any]:
        """The channels by name, as prototypes."""
        return self.program.channels

    @property
    def input_channels(self) -> str:
        """Where the input goes."""
        return self.program.input_channel

    @property
    def output_channels(self) -> str | tuple[str, ...]:
        """What `invoke` returns."""
        return self.program.output

    @property
    def stream_channels(self) -> str | tuple[str, ...]:
        """What `values` streams and snapshots show."""
        return self.program.stream

    @property
    def retry_policy(self) -> tuple[Any, ...]:
        """Policies for nodes and tasks that name none."""
        return self.program.retry

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {', '.join(self.program.nodes)}>"


Pregel = Workflow
"""The documented name."""
