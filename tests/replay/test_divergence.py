"""What happens when the code is not the code that was recorded."""

import logging
import threading

import pytest

from perdure.errors import NonDeterminismError, UnknownInterruptError
from perdure.func import entrypoint, task
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}
GO = Command(resume=True)


@pytest.fixture
def ran():
    return []


@pytest.fixture
def make(ran):
    """Makes tasks that note their name and arguments."""

    def make(name):
        def function(*args):
            ran.append((name, *args))
            return f"{name}{list(args)}"

        function.__name__ = name
        return task(function)

    return make


def deploy(saver, body, **options):
    """The entrypoint `workflow` with this body: what a deploy would put in place."""

    def workflow(x):
        return body(x)

    return entrypoint(checkpointer=saver, **options)(workflow)


def changed_arguments(saver, make, **options):
    """A workflow whose one call has other arguments on resume."""
    quote, price = make("quote"), [10]

    def body(x):
        result = quote(price[0]).result()
        interrupt("?")
        return result

    return deploy(saver, body, **options), price


def test_changed_arguments_are_an_error(drive, saver, make, ran):
    """A solo call with other arguments than recorded raises, and nothing runs."""
    workflow, price = changed_arguments(saver, make)
    drive.invoke(workflow, 1, T)
    price[0] = 99
    with pytest.raises(NonDeterminismError):
        drive.invoke(workflow, GO, T)
    assert ran == [("quote", 10)]


def test_the_error_shows_both_calls(drive, saver, make):
    """The message names the recorded call and the one that was made."""
    charge, refund = make("charge"), make("refund")
    drive.invoke(deploy(saver, lambda x: [charge(1).result(), interrupt("?")]), 1, T)
    new = deploy(saver, lambda x: [refund(1).result(), interrupt("?")])
    with pytest.raises(NonDeterminismError) as caught:
        drive.invoke(new, GO, T)
    assert "charge" in str(caught.value)
    assert "refund" in str(caught.value)


def test_after_the_error_the_thread_can_go_on(drive, saver, make, ran):
    """A refused resume spoils nothing: the right code finishes, with the answer that was given."""
    workflow, price = changed_arguments(saver, make)
    drive.invoke(workflow, 1, T)
    price[0] = 99
    with pytest.raises(NonDeterminismError):
        drive.invoke(workflow, GO, T)
    with pytest.raises(UnknownInterruptError, match="the answer is kept; go on with invoke"):
        drive.invoke(workflow, GO, T)
    price[0] = 10
    assert drive.invoke(workflow, None, T) == "quote[10]"
    assert ran == [("quote", 10)]


def test_warn_runs_the_new_call_and_says_so(drive, saver, make, ran, caplog):
    """With `warn` the call is made afresh and the log names it."""
    workflow, price = changed_arguments(saver, make, on_divergence="warn")
    drive.invoke(workflow, 1, T)
    price[0] = 99
    with caplog.at_level(logging.WARNING):
        assert drive.invoke(workflow, GO, T) == "quote[99]"
    assert ran == [("quote", 10), ("quote", 99)]
    assert "quote" in caplog.text


def test_allow_runs_the_new_call(drive, saver, make, ran):
    """With `allow` a changed call is a new call."""
    workflow, price = changed_arguments(saver, make, on_divergence="allow")
    drive.invoke(workflow, 1, T)
    price[0] = 99
    assert drive.invoke(workflow, GO, T) == "quote[99]"
    assert ran == [("quote", 10), ("quote", 99)]


def test_a_run_may_override_the_workflows_choice(drive, saver, make, ran):
    """`on_divergence=` given to a run counts for that run."""
    workflow, price = changed_arguments(saver, make)
    drive.invoke(workflow, 1, T)
    price[0] = 99
    assert drive.invoke(workflow, GO, T, on_divergence="allow") == "quote[99]"


def test_unknown_choice_is_refused(saver, make):
    """A misspelt choice is an error at once."""
    with pytest.raises(ValueError, match="igonre"):
        deploy(saver, lambda x: x, on_divergence="igonre")


def test_step_added_in_front_is_noticed_and_nothing_runs_twice(drive, saver, make, ran):
    """A deploy that adds a step before finished ones is refused by default."""
    charge, audit = make("charge"), make("audit")
    drive.invoke(deploy(saver, lambda x: [charge(x).result(), interrupt("?")]), 1, T)
    new = deploy(saver, lambda x: [audit(x).result(), charge(x).result(), interrupt("?")])
    with pytest.raises(NonDeterminismError):
        drive.invoke(new, GO, T)
    assert ran == [("charge", 1)]


def test_step_added_in_front_finds_finished_work_when_allowed(drive, saver, make, ran):
    """With `allow` the new step runs and the finished one does not."""
    charge, audit = make("charge"), make("audit")
    drive.invoke(deploy(saver, lambda x: [charge(x).result(), interrupt("?")]), 1, T)
    new = deploy(
        saver, lambda x: [audit(x).result(), charge(x).result(), interrupt("?")], on_divergence="allow"
    )
    assert drive.invoke(new, GO, T) == ["audit[1]", "charge[1]", True]
    assert ran == [("charge", 1), ("audit", 1)]


def test_step_added_behind_the_record_just_runs(drive, saver, make, ran):
    """A deploy that only adds to the end needs no permission."""
    charge, ship = make("charge"), make("ship")
    drive.invoke(deploy(saver, lambda x: [charge(x).result(), interrupt("?")]), 1, T)
    new = deploy(saver, lambda x: [charge(x).result(), interrupt("?"), ship(x).result()])
    assert drive.invoke(new, GO, T) == ["charge[1]", True, "ship[1]"]
    assert ran == [("charge", 1), ("ship", 1)]


def test_step_removed_at_the_end_is_logged(drive, saver, make, ran, caplog):
    """A recorded result that nobody claims is told to the log."""
    charge, audit = make("charge"), make("audit")
    old = deploy(saver, lambda x: [charge(x).result(), audit(x).result(), interrupt("?")])
    drive.invoke(old, 1, T)
    with caplog.at_level(logging.WARNING):
        assert drive.invoke(deploy(saver, lambda x: [charge(x).result(), interrupt("?")]), GO, T) == [
            "charge[1]",
            True,
        ]
    assert "audit" in caplog.text
    assert len(ran) == 2


def test_step_removed_in_front_keeps_the_others(drive, saver, make, ran):
    """Calls behind a removed one are still found: nothing runs again."""
    charge, audit = make("charge"), make("audit")
    old = deploy(saver, lambda x: [audit(x).result(), charge(x).result(), interrupt("?")])
    drive.invoke(old, 1, T)
    new = deploy(saver, lambda x: [charge(x).result(), interrupt("?")])
    assert drive.invoke(new, GO, T) == ["charge[1]", True]
    assert ran == [("audit", 1), ("charge", 1)]


def test_reordered_steps_keep_their_results(drive, saver, make, ran):
    """Swapping two finished steps finds both: a call is not known by its place."""
    one, two = make("one"), make("two")
    drive.invoke(deploy(saver, lambda x: [one(x).result(), two(x).result(), interrupt("?")]), 1, T)
    new = deploy(saver, lambda x: [two(x).result(), one(x).result(), interrupt("?")])
    assert drive.invoke(new, GO, T) == ["two[1]", "one[1]", True]
    assert ran == [("one", 1), ("two", 1)]


def test_parallel_calls_may_change_places(drive, saver, make, ran):
    """Where several calls were open, order is timing and no divergence."""
    work = make("work")
    order = [1, 2, 3]

    def body(x):
        futures = {i: work(i) for i in order}
        results = [futures[i].result() for i in (1, 2, 3)]
        interrupt("?")
        return results

    workflow = deploy(saver, body)
    drive.invoke(workflow, 1, T)
    order.reverse()
    assert drive.invoke(workflow, GO, T) == ["work[1]", "work[2]", "work[3]"]
    assert len(ran) == 3


def test_changed_call_among_parallel_ones_runs(drive, saver, ran):
    """Beside open calls an unrecorded one is run, not refused."""
    numbers, together = [1, 2, 3], threading.Barrier(3)

    @task
    def work(i):
        if i < 9:
            together.wait(10)
        ran.append(i)
        return i

    def body(x):
        results = [f.result() for f in [work(i) for i in numbers]]
        interrupt("?")
        return results

    workflow = deploy(saver, body)
    drive.invoke(workflow, 1, T)
    numbers[1] = 9
    assert drive.invoke(workflow, GO, T) == [1, 9, 3]
    assert sorted(ran) == [1, 2, 3, 9]


def test_divergence_in_a_nested_task_is_noticed(drive, saver, make, ran):
    """A task's own calls are checked as the body's are."""
    leaf, price = make("leaf"), [1]

    @task
    def middle():
        first = leaf(price[0]).result()
        interrupt("?")
        return first

    workflow = deploy(saver, lambda x: middle().result())
    drive.invoke(workflow, 1, T)
    price[0] = 2
    with pytest.raises(NonDeterminismError):
        drive.invoke(workflow, GO, T)
    assert ran == [("leaf", 1)]


def test_new_run_on_the_thread_is_never_a_divergence(drive, saver, make, ran):
    """Records of a finished run bind nobody."""
    workflow, price = changed_arguments(saver, make)
    drive.invoke(workflow, 1, T)
    drive.invoke(workflow, GO, T)
    price[0] = 99
    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, GO, T) == "quote[99]"


def test_caught_divergence_cannot_be_swallowed_into_a_result(drive, saver, make, ran):
    """A body with `except Exception` around the call does not run the changed call."""
    quote, price = make("quote"), [10]

    def body(x):
        try:
            result = quote(price[0]).result()
        except Exception:
            result = "guessed"
        interrupt("?")
        return result

    workflow = deploy(saver, body)
    drive.invoke(workflow, 1, T)
    price[0] = 99
    with pytest.raises(NonDeterminismError):
        drive.invoke(workflow, GO, T)
    assert ran == [("quote", 10)]


def renamed(saver, make, **options):
    """A thread that waits in `workflow`, and the same code under another name."""
    quote = make("quote")

    def body(x):
        result = quote(x).result()
        return result, interrupt("?")

    def workflow_v2(x):
        return body(x)

    return deploy(saver, body), entrypoint(checkpointer=saver, **options)(workflow_v2)


@pytest.mark.parametrize("given", [None, GO], ids=["none", "answer"])
def test_a_renamed_entrypoint_does_not_do_all_again(drive, saver, make, ran, given):
    """The error names both; under the old name the thread goes on."""
    old, new = renamed(saver, make)
    drive.invoke(old, 1, T)
    with pytest.raises(NonDeterminismError, match="open in entrypoint 'workflow'; 'workflow_v2' would"):
        drive.invoke(new, given, T)
    assert drive.invoke(old, GO, T)
    assert ran == [("quote", 1)]


def test_a_renamed_entrypoint_may_be_allowed(drive, saver, make, ran):
    """Then it begins from its top, with the recorded input."""
    old, new = renamed(saver, make, on_divergence="allow")
    drive.invoke(old, 1, T)
    drive.invoke(new, None, T)
    assert ran == [("quote", 1), ("quote", 1)]


def test_a_new_input_goes_to_any_entrypoint(drive, saver, make, ran):
    """What was open is given up, as by any new input."""
    old, new = renamed(saver, make)
    drive.invoke(old, 1, T)
    drive.invoke(new, 2, T)
    assert drive.invoke(new, GO, T)
    assert ran == [("quote", 1), ("quote", 2)]
