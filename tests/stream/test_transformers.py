"""Projections of one's own: what a transformer sees, may change, and how its mistakes show."""

from __future__ import annotations

import asyncio

import pytest

from perdure.func import entrypoint, task
from perdure.stream import StreamChannel, StreamTransformer, ValuesTransformer
from perdure.stream.router import EventRouter

GIVEN = {"a": ["0"]}


class Counter(StreamTransformer):
    """Counts the values of its graph in a channel."""

    def __init__(self, scope=()):
        super().__init__(scope)
        self.counts = StreamChannel("counts")
        self.count = 0

    def init(self):
        return {"counts": self.counts}

    def process(self, event):
        if event["method"] == "values" and event["params"]["namespace"] == list(self.scope):
            self.count += 1
            self.counts.push(self.count)
        return True


def one(chain):
    return chain(("one", lambda s: {"b": 1}))


def test_a_projection_of_ones_own(runs, chain):
    """It is read from `extensions`, and is no attribute of the run."""
    run = runs.open(one(chain), GIVEN, transformers=[Counter])
    inner = getattr(run, "inner", run)
    with pytest.raises(AttributeError, match="counts"):
        _ = inner.counts
    channel = inner.extensions["counts"]
    assert list(run.wrap(channel) if runs.is_async else channel) == [1, 2]


def test_a_native_projection_is_an_attribute(runs, chain):
    """Native ones are reached by name."""

    class Native(Counter):
        native = True

    run = runs.open(one(chain), GIVEN, transformers=[Native])
    assert list(run.counts) == [1, 2]


def test_named_channels_are_events_before_the_event_they_come_from(runs, chain):
    """What a transformer pushes while it handles an event precedes that event in the log."""
    events = list(runs.open(one(chain), GIVEN, transformers=[Counter]))
    assert [event["method"] for event in events] == ["custom:counts", "values"] * 2
    assert [event["seq"] for event in events] == [1, 2, 3, 4]


def test_a_false_result_keeps_an_event_out_of_the_log(runs, chain):
    """All other transformers see it all the same."""

    class Censor(StreamTransformer):
        def init(self):
            return {}

        def process(self, event):
            return event["method"] != "values"

    run = runs.open(one(chain), GIVEN, transformers=[Censor, Counter])
    assert [event["method"] for event in run] == ["custom:counts"] * 2


def test_modes_that_a_transformer_needs_are_streamed(runs, chain):
    """The run is asked for them, and for no others."""
    seen = set()

    class Listener(StreamTransformer):
        required_stream_modes = ("updates",)

        def init(self):
            return {}

        def process(self, event):
            seen.add(event["method"])
            return True

    _ = runs.open(one(chain), GIVEN, transformers=[Listener]).output
    assert seen == {"values", "tasks", "updates"}


def test_early_transformers_change_what_the_built_in_ones_see(runs, chain):
    """`before_builtins` comes first, whatever the order of the list."""

    class Rewrite(StreamTransformer):
        before_builtins = True

        def init(self):
            return {}

        def process(self, event):
            if event["method"] == "values":
                event["params"]["data"] = "rewritten"
            return True

    run = runs.open(one(chain), GIVEN, transformers=[Counter, Rewrite])
    assert list(run.values) == ["rewritten"] * 2


def test_children_get_transformers_of_their_own(runs, chain):
    """A handle has the outer run's projections, made for its namespace."""
    run = runs.open(chain(("sub", one(chain))), GIVEN, transformers=[Counter])
    counts = []
    for handle in run.subgraphs:
        inner = getattr(handle, "inner", handle)
        channel = inner.extensions["counts"]
        counts.append(list(handle.wrap(channel) if runs.is_async else channel))
    assert counts == [[1, 2]]


# mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [Counter(), 7])
def test_only_factories_are_taken(chain, spec):
    """An instance could serve one run only; anything else is no transformer."""
    with pytest.raises(TypeError, match=r"pre-built instance|not 7"):
        chain(("one", lambda s: None), transformers=[spec])
    with pytest.raises(TypeError, match=r"pre-built instance|not 7"):
        one(chain).stream_events(GIVEN, version="v3", transformers=[spec])


def test_init_gives_a_dict():
    """Anything else is refused by name."""

    class Bad(Counter):
        def init(self):
            return [1]

    with pytest.raises(TypeError, match=r"Bad.init\(\) must return a dict"):
        EventRouter(factories=[Bad])


def test_projections_have_names_of_their_own():
    """A name that is taken is refused, with who has it."""

    class Mine(Counter):
        def init(self):
            return {"values": StreamChannel()}

    with pytest.raises(ValueError, match=r"conflict.*'values'.*ValuesTransformer"):
        EventRouter(factories=[ValuesTransformer, Mine])


def test_a_transformer_does_something():
    """One that overrides neither method says so when an event comes."""

    class Idle(StreamTransformer):
        def init(self):
            return {}

    with pytest.raises(NotImplementedError, match="Idle"):
        EventRouter([Idle()]).push({"method": "x"})


@pytest.mark.parametrize("moment", ["process", "finalize"])
def test_an_error_of_a_transformer_fails_the_run(runs, chain, moment):
    """Every door raises it, the reader that was there and those that come later."""
    error = LookupError("mine")

    class Broken(Counter):
        def fail_now(self, *_):
            raise error

    setattr(Broken, moment, Broken.fail_now)
    run = runs.open(one(chain), GIVEN, transformers=[Broken])
    for read in (lambda: list(run.values), lambda: run.output, lambda: list(run), lambda: run.interrupted):
        with pytest.raises(LookupError) as raised:
            read()
        assert raised.value is error


def test_all_finalisers_run(runs, chain):
    """One that raises does not keep the others from finishing."""
    finished = []

    class Broken(Counter):
        def finalize(self):
            raise LookupError("mine")

    class Careful(StreamTransformer):
        def init(self):
            return {}

        def process(self, event):
            return True

        def finalize(self):
            finished.append(True)

    run = runs.open(one(chain), GIVEN, transformers=[Broken, Careful])
    with pytest.raises(LookupError):
        _ = run.output
    assert finished == [True]


def test_an_error_in_a_childs_transformer_fails_the_run(runs, chain):
    """What goes wrong for a handle goes wrong for the run."""

    class BrokenInside(Counter):
        def process(self, event):
            if self.scope:
                raise LookupError("inside")
            return True

    run = runs.open(chain(("sub", one(chain))), GIVEN, transformers=[BrokenInside])
    with pytest.raises(LookupError, match="inside"):
        _ = run.output


def test_a_transformer_cannot_pull_the_run_that_feeds_it(chain):
    """Asking for the next event while one is delivered is an error, not a dead stop."""

    class Greedy(StreamTransformer):
        def init(self):
            return {}

        def on_register(self, router):
            self.router = router

        def process(self, event):
            return self.router.pull()

    with pytest.raises(RuntimeError, match="waiting for the code that reads from it"):
        _ = one(chain).stream_events(GIVEN, version="v3", transformers=[Greedy]).output


# async ---------------------------------------------------------------------------------------


class Slow(Counter):
    """Awaits before it lets an event through."""

    async def aprocess(self, event):
        await asyncio.sleep(0)
        return self.process(event)


def test_async_transformers_need_async_runs(chain):
    """A sync run refuses them at the call; `supports_sync` says that they can do without."""
    with pytest.raises(RuntimeError, match="requires an async run"):
        one(chain).stream_events(GIVEN, version="v3", transformers=[Slow])

    class Both(Slow):
        supports_sync = True

    assert one(chain).stream_events(GIVEN, version="v3", transformers=[Both]).output == {"a": ["0"], "b": 1}


def opened(workflow, **kw):
    return workflow.astream_events(GIVEN, version="v3", **kw)


def test_async_transformers_are_awaited_in_order(chain):
    """The next transformer, and the log, see an event only afterwards."""

    async def main():
        run = await opened(one(chain), transformers=[Slow])
        return [event["method"] async for event in run]

    assert asyncio.run(main()) == ["custom:counts", "values"] * 2


class Scheduling(Counter):
    """Starts something beside the stream at the first event."""

    on_error = "log"

    def __init__(self, scope=()):
        super().__init__(scope)
        self.started = False
        self.done = []

    def process(self, event):
        if not self.started:
            self.started = True
            self.schedule(self.work(), on_error=self.on_error)
        return True

    async def work(self):
        await asyncio.sleep(0)
        self.done.append("worked")


def test_scheduled_work_is_awaited_at_the_end(chain):
    """A run that ends well waits for what transformers started."""

    async def main():
        transformer = Scheduling()
        run = await opened(one(chain), transformers=[lambda scope: transformer])
        await run.output()
        return transformer.done, len(asyncio.all_tasks())

    assert asyncio.run(main()) == (["worked"], 1)


def test_scheduled_work_is_cancelled_when_the_run_fails(chain):
    """No task is left behind."""

    class Endless(Scheduling):
        async def work(self):
            await asyncio.Event().wait()

    def fail(state):
        raise ValueError("boom")

    async def main():
        run = await opened(chain(("bad", fail)), transformers=[Endless])
        with pytest.raises(ValueError, match="boom"):
            await run.output()
        return len(asyncio.all_tasks())

    assert asyncio.run(main()) == 1


@pytest.mark.parametrize("on_error", ["log", "raise"])
def test_errors_of_scheduled_work(chain, caplog, on_error):
    """They are logged, or fail the run, as the transformer said."""

    class Failing(Scheduling):
        async def work(self):
            raise LookupError("scheduled")

    Failing.on_error = on_error

    async def main():
        run = await opened(one(chain), transformers=[Failing])
        return await run.output()

    if on_error == "raise":
        with pytest.raises(LookupError, match="scheduled"):
            asyncio.run(main())
    else:
        assert asyncio.run(main()) == {"a": ["0"], "b": 1}
        assert "scheduled" in caplog.text


def test_scheduling_needs_a_loop(chain):
    """In a sync run it is an error that says so."""
    with pytest.raises(RuntimeError, match="requires a running event loop"):
        _ = one(chain).stream_events(GIVEN, version="v3", transformers=[Scheduling]).output


def test_subclasses_need_not_call_the_constructor(chain):
    """Scheduling works for a transformer that skipped `super().__init__`."""

    class Bare(Scheduling):
        def __init__(self, scope=()):
            self.started = False
            self.done = []
            self.counts = StreamChannel()

    async def main():
        return await (await opened(one(chain), transformers=[Bare])).output()

    assert asyncio.run(main()) == {"a": ["0"], "b": 1}


def test_tasks_of_an_entrypoint_reach_transformers(runs):
    """Functional programs are seen the same way."""
    seen = []

    class Names(StreamTransformer):
        def init(self):
            return {}

        def process(self, event):
            if event["method"] == "tasks":
                seen.append(event["params"]["data"]["name"])
            return True

    @task
    def work():
        return 1

    @entrypoint()
    def flow(x):
        return work().result()

    _ = runs.open(flow, 1, transformers=[Names]).output
    assert seen == ["flow", "work", "work", "flow"]
