"""`Command(resume=...)`: which question an answer goes to, and which answers are refused."""

import asyncio
import operator
from typing import Annotated, TypedDict

import pytest

from perdure.errors import EmptyInputError, PerdureError, UnknownInterruptError
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]


@pytest.fixture
def entered():
    return []


def values(result):
    return [i.value for i in result["__interrupt__"]]


def ids(result):
    return {i.value: i.id for i in result["__interrupt__"]}


def asking(saver):
    @entrypoint(checkpointer=saver)
    def workflow(x):
        return {"answer": interrupt("?")}

    return workflow


def fan(saver, entered, *names, questions=1):
    """A graph with nodes side by side, each asking so many questions."""

    def node(name):
        def ask(state):
            entered.append(name)
            return {"log": [[name, *(interrupt(f"{name}{i + 1}") for i in range(questions))]]}

        return ask

    builder = StateGraph(State)
    for name in names:
        builder.add_node(name, node(name))
        builder.add_edge(START, name)
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("answer", [0, False, "", [], {}, None, {"a": 1}, [1, 2], True], ids=repr)
def test_any_value_is_an_answer(drive, saver, answer):
    """Falsy values, {} and None included."""
    workflow = asking(saver)
    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, Command(resume={"x": answer}), T) == {"answer": {"x": answer}}


@pytest.mark.parametrize("answer", [0, False, "", [], {}], ids=repr)
def test_falsy_answers_are_delivered(drive, saver, answer):
    """A falsy value is not taken for "no answer"."""
    workflow = asking(saver)
    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, Command(resume=answer), T) == {"answer": answer}


@pytest.mark.parametrize("answer", [None, 0, {}, "text"], ids=repr)
def test_answer_by_id(drive, saver, answer):
    """A dict from ids to answers addresses questions, None included."""
    workflow = asking(saver)
    ident = ids(drive.invoke(workflow, 1, T))["?"]
    assert drive.invoke(workflow, Command(resume={ident: answer}), T) == {"answer": answer}


def test_none_alone_is_refused_in_words(drive, saver):
    """`Command(resume=None)` says nothing: it is an empty command, or delivers None; never a crash."""
    workflow = asking(saver)
    drive.invoke(workflow, 1, T)
    try:
        result = drive.invoke(workflow, Command(resume=None), T)
    except EmptyInputError as error:
        assert "Command" in str(error)
    else:
        assert result == {"answer": None}


def test_empty_command_is_refused(drive, saver):
    """`Command()` is no input."""
    workflow = asking(saver)
    drive.invoke(workflow, 1, T)
    with pytest.raises(EmptyInputError, match="Received empty Command input"):
        drive.invoke(workflow, Command(), T)


def test_parallel_questions_are_all_shown(drive, saver, entered):
    """Nodes that ask in one superstep are all in the result, and in the state in task order."""
    graph = fan(saver, entered, "a", "b", "c")
    assert sorted(values(drive.invoke(graph, {"log": []}, T))) == ["a1", "b1", "c1"]
    assert [i.value for i in drive.get_state(graph, T).interrupts] == ["a1", "b1", "c1"]


def test_plain_answer_to_several_questions_is_refused(drive, saver, entered):
    """With several open questions the caller must name one."""
    graph = fan(saver, entered, "a", "b")
    drive.invoke(graph, {"log": []}, T)
    with pytest.raises(Exception, match="multiple pending interrupts") as caught:
        drive.invoke(graph, Command(resume="x"), T)
    assert isinstance(caught.value, RuntimeError | PerdureError)
    assert len(drive.get_state(graph, T).interrupts) == 2


def test_all_at_once_by_id(drive, saver, entered):
    """One command may answer every question."""
    graph = fan(saver, entered, "a", "b")
    found = ids(drive.invoke(graph, {"log": []}, T))
    result = drive.invoke(graph, Command(resume={i: f"to {v}" for v, i in found.items()}), T)
    assert result == {"log": [["a", "to a1"], ["b", "to b1"]]}


def test_unanswered_branch_is_not_run_again(drive, saver, entered):
    """Answering one of two asking nodes leaves the other where it is, and shows it still."""
    graph = fan(saver, entered, "a", "b", questions=2)
    result = drive.invoke(graph, {"log": []}, T)
    for answer in ("x", "y"):
        ident = next(i.id for i in result["__interrupt__"] if i.value.startswith("a"))
        entered.clear()
        result = drive.invoke(graph, Command(resume={ident: answer}), T)
        assert "b" not in entered
        assert "b1" in values(result)


def test_branches_answered_one_after_the_other(drive, saver, entered):
    """Each branch keeps its own answers until all are there."""
    graph = fan(saver, entered, "a", "b")
    found = ids(drive.invoke(graph, {"log": []}, T))
    result = drive.invoke(graph, Command(resume={found["b1"]: "to b"}), T)
    assert values(result) == ["a1"]
    result = drive.invoke(graph, Command(resume={found["a1"]: "to a"}), T)
    assert result == {"log": [["a", "to a"], ["b", "to b"]]}


def test_last_open_question_takes_a_plain_answer(drive, saver, entered):
    """When one question is left no id is needed."""
    graph = fan(saver, entered, "a", "b")
    found = ids(drive.invoke(graph, {"log": []}, T))
    drive.invoke(graph, Command(resume={found["b1"]: "to b"}), T)
    assert drive.invoke(graph, Command(resume="to a"), T) == {"log": [["a", "to a"], ["b", "to b"]]}


def test_invoke_none_asks_again(drive, saver, entered):
    """`invoke(None)` runs every paused task once more and shows the same questions."""
    graph = fan(saver, entered, "a", "b")
    first = ids(drive.invoke(graph, {"log": []}, T))
    entered.clear()
    assert ids(drive.invoke(graph, None, T)) == first
    assert sorted(entered) == ["a", "b"]


def test_new_input_abandons_the_questions(drive, saver):
    """A new input starts over; what was open is gone."""
    workflow = asking(saver)
    first = ids(drive.invoke(workflow, 1, T))["?"]
    second = ids(drive.invoke(workflow, 2, T))["?"]
    assert first != second
    with pytest.raises(UnknownInterruptError):
        drive.invoke(workflow, Command(resume={first: "late"}), T)
    assert drive.invoke(workflow, Command(resume={second: "ok"}), T) == {"answer": "ok"}


def test_unknown_id_is_refused(drive, saver):
    """An answer to a question nobody asked is an error that names what is open."""
    workflow = asking(saver)
    open_id = ids(drive.invoke(workflow, 1, T))["?"]
    with pytest.raises(UnknownInterruptError) as caught:
        drive.invoke(workflow, Command(resume={"0" * 32: "lost"}), T)
    assert caught.value.interrupt_ids == ("0" * 32,)
    assert caught.value.pending_ids == (open_id,)
    assert [i.id for i in drive.get_state(workflow, T).interrupts] == [open_id]


def test_one_unknown_id_among_known_ones_refuses_all(drive, saver, entered):
    """A map with a wrong id answers nothing."""
    graph = fan(saver, entered, "a", "b")
    found = ids(drive.invoke(graph, {"log": []}, T))
    with pytest.raises(UnknownInterruptError):
        drive.invoke(graph, Command(resume={found["a1"]: "x", "f" * 32: "lost"}), T)
    assert len(drive.get_state(graph, T).interrupts) == 2


def test_answered_id_is_refused_the_second_time(drive, saver):
    """An answer given twice is refused the second time."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [interrupt("one"), interrupt("two")]

    first = ids(drive.invoke(workflow, 1, T))["one"]
    drive.invoke(workflow, Command(resume={first: "x"}), T)
    second = ids(drive.invoke(workflow, None, T))["two"]
    drive.invoke(workflow, Command(resume={second: "y"}), T)
    with pytest.raises(PerdureError):
        drive.invoke(workflow, Command(resume={second: "z"}), T)


def test_finished_thread_refuses_an_answer(drive, saver):
    """Nothing waits on a finished thread."""
    workflow = asking(saver)
    drive.invoke(workflow, 1, T)
    drive.invoke(workflow, Command(resume="x"), T)
    with pytest.raises(UnknownInterruptError):
        drive.invoke(workflow, Command(resume="again"), T)
    assert drive.get_state(workflow, T).values == {"answer": "x"}


def test_unknown_thread_refuses_an_answer(drive, saver):
    """Nothing waits on a thread that was never started."""
    with pytest.raises(PerdureError):
        drive.invoke(asking(saver), Command(resume="x"), T)


def test_no_saver_refuses_an_answer(drive):
    """Without a saver nothing can be resumed."""
    with pytest.raises(RuntimeError, match="without checkpointer"):
        drive.invoke(asking(None), Command(resume="x"))


def test_parallel_questions_in_tasks_are_all_shown(saver):
    """Two gathered tasks that ask are both shown and can be answered together."""

    @task
    async def ask(name):
        return [name, interrupt(name)]

    @entrypoint(checkpointer=saver)
    async def workflow(x):
        return await asyncio.gather(ask("a"), ask("b"))

    async def main():
        found = ids(await workflow.ainvoke(1, T))
        assert set(found) == {"a", "b"}
        return await workflow.ainvoke(Command(resume={i: f"to {v}" for v, i in found.items()}), T)

    assert asyncio.run(main()) == [["a", "to a"], ["b", "to b"]]


def test_parallel_questions_in_sync_tasks_are_all_shown(drive, saver):
    """The same for tasks of a sync body, answered one after the other."""

    @task
    def ask(name):
        return [name, interrupt(name)]

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [f.result() for f in [ask("a"), ask("b")]]

    result = drive.invoke(workflow, 1, T)
    assert sorted(values(result)) == ["a", "b"]
    assert sorted(i.value for i in drive.get_state(workflow, T).interrupts) == ["a", "b"]
    result = drive.invoke(workflow, Command(resume={ids(result)["b"]: 2}), T)
    assert values(result) == ["a"]
    assert drive.invoke(workflow, Command(resume=1), T) == [["a", 1], ["b", 2]]


def test_plain_answer_to_two_asking_tasks_is_refused(drive, saver):
    """Two open questions of one entrypoint are two questions."""

    @task
    def ask(name):
        return interrupt(name)

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return [f.result() for f in [ask("a"), ask("b")]]

    drive.invoke(workflow, 1, T)
    with pytest.raises(Exception, match="multiple pending interrupts"):
        drive.invoke(workflow, Command(resume=1), T)


def test_parallel_subgraphs_questions_are_all_shown(drive, saver):
    """Two graphs as nodes, each asking, are both shown and answered by id."""

    def child(name):
        builder = StateGraph(State)
        builder.add_node("ask", lambda state: {"log": [[name, interrupt(name)]]})
        builder.add_edge(START, "ask")
        return builder.compile()

    builder = StateGraph(State)
    for name in ("a", "b"):
        graph = child(name)
        builder.add_node(name, lambda state, graph=graph: graph.invoke({"log": []}))
        builder.add_edge(START, name)
    parent = builder.compile(checkpointer=saver)
    found = ids(drive.invoke(parent, {"log": []}, T))
    assert set(found) == {"a", "b"}
    result = drive.invoke(parent, Command(resume={found["b"]: 2}), T)
    assert values(result) == ["a"]
    assert drive.invoke(parent, Command(resume={found["a"]: 1}), T) == {"log": [["a", 1], ["b", 2]]}


def test_an_answer_is_delivered_once(drive, saver):
    """Where the code asks its questions in another order now, an answer serves one of them."""
    texts = ["one", "two"]

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return {text: interrupt(text) for text in texts}

    ident = ids(drive.invoke(workflow, 1, T))["one"]
    texts.reverse()
    assert len(values(drive.invoke(workflow, Command(resume={ident: "to one"}), T))) == 1
    result = drive.invoke(workflow, Command(resume="to two"), T)
    assert sorted(result.values()) == ["to one", "to two"]


def test_resume_with_update_writes_first(drive, saver):
    """`Command(resume=, update=)` applies the update and delivers the answer."""
    seen = []

    def ask(state):
        answer = interrupt("?")
        seen.append(list(state["log"]))
        return {"log": [answer]}

    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    graph = builder.compile(checkpointer=saver)
    drive.invoke(graph, {"log": ["start"]}, T)
    result = drive.invoke(graph, Command(resume="answer", update={"log": ["extra"]}), T)
    assert result["log"].count("extra") == 1
    assert result["log"].count("answer") == 1


def test_answers_survive_the_process(drive, tmp_path):
    """Answers given through one saver object are there for the next one on the same file."""
    from perdure.checkpoint.sqlite import SqliteSaver

    path = str(tmp_path / "threads.db")

    def workflow(saver):
        @entrypoint(checkpointer=saver)
        def two_questions(x):
            return [interrupt("one"), interrupt("two")]

        return two_questions

    with SqliteSaver.from_conn_string(path) as saver:
        drive.invoke(workflow(saver), 1, T)
    with SqliteSaver.from_conn_string(path) as saver:
        assert values(drive.invoke(workflow(saver), Command(resume=1), T)) == ["two"]
    with SqliteSaver.from_conn_string(path) as saver:
        assert drive.invoke(workflow(saver), Command(resume=2), T) == [1, 2]
