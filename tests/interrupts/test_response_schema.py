"""Typed answers: `interrupt(..., response_schema=...)`."""

import dataclasses

import pydantic
import pytest

from perdure.errors import is_invalid_resume
from perdure.func import entrypoint
from perdure.types import Command, interrupt

T = {"configurable": {"thread_id": "t"}}


class Review(pydantic.BaseModel):
    approved: bool
    note: str = ""


@dataclasses.dataclass
class Point:
    x: int
    y: int


def asking(saver, schema, shape):
    @entrypoint(checkpointer=saver)
    def workflow(x):
        return shape(interrupt("?", response_schema=schema))

    return workflow


def test_question_shows_the_json_schema(drive, saver):
    """The surfaced question tells what its answer must look like."""
    workflow = asking(saver, Review, lambda a: a.approved)
    (question,) = drive.invoke(workflow, 1, T)["__interrupt__"]
    assert question.response_schema["properties"]["approved"] == {"title": "Approved", "type": "boolean"}


def test_answer_becomes_the_model(drive, saver):
    """A dict that fits comes back as an instance."""
    workflow = asking(saver, Review, lambda a: [type(a).__name__, a.approved, a.note])
    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, Command(resume={"approved": True}), T) == ["Review", True, ""]


def test_answer_becomes_the_dataclass(drive, saver):
    """A dataclass works as a schema."""
    workflow = asking(saver, Point, lambda a: [a == Point(1, 2)])
    drive.invoke(workflow, 1, T)
    assert drive.invoke(workflow, Command(resume={"x": 1, "y": 2}), T) == [True]


def test_misfit_is_refused_and_can_be_answered_again(drive, saver):
    """An answer that does not fit raises, saves nothing, and leaves the question open."""
    workflow = asking(saver, Review, lambda a: a.approved)
    drive.invoke(workflow, 1, T)
    with pytest.raises(pydantic.ValidationError) as caught:
        drive.invoke(workflow, Command(resume={"approved": "perhaps"}), T)
    assert is_invalid_resume(caught.value)
    assert [i.value for i in drive.get_state(workflow, T).interrupts] == ["?"]
    assert drive.invoke(workflow, Command(resume={"approved": False}), T) is False


def test_other_errors_are_no_invalid_resume():
    """The predicate knows only answers that did not fit."""
    assert not is_invalid_resume(ValueError("other"))


def test_dict_schema_is_shown_and_not_checked(drive, saver):
    """A JSON schema given as a dict passes through."""
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    workflow = asking(saver, schema, lambda a: a)
    (question,) = drive.invoke(workflow, 1, T)["__interrupt__"]
    assert question.response_schema == schema
    assert drive.invoke(workflow, Command(resume="anything"), T) == "anything"


def test_no_schema_shows_none(drive, saver):
    """Without a schema there is nothing to show."""

    @entrypoint(checkpointer=saver)
    def workflow(x):
        return interrupt("?")

    (question,) = drive.invoke(workflow, 1, T)["__interrupt__"]
    assert question.response_schema is None
