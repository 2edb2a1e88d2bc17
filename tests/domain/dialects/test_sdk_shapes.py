"""What is rendered has the shape that the providers' own SDKs declare; so do the shared cases."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from pydantic import TypeAdapter, ValidationError

from agent_lab.domain.dialects.formats import FORMATS
from agent_lab.domain.dialects.rendering import written
from agent_lab.domain.dialects.rules.rule import Format
from agent_lab.domain.messages import ChatMessage
from tests.domain.dialects.shared_cases import cases, scenarios
from tests.domain.dialects.test_renderings import talks

SHAPED = [case for case in cases() if case["provider"] in FORMATS]


Adapters = dict[Format, list[TypeAdapter[Any]]]


@pytest.fixture(scope="module")
def adapters() -> Adapters:
    """The SDKs' types of one message; importing them takes seconds, so once.

    Responses items are a union whose members are tried one by one: pydantic chooses among them
    before it has read their `Iterable` fields.
    """
    from anthropic.types import MessageParam
    from google.genai.types import Content
    from openai.types.chat import ChatCompletionMessageParam
    from openai.types.responses import ResponseInputItemParam

    return {
        "openai_chat": [TypeAdapter(ChatCompletionMessageParam)],
        "openai_responses": [TypeAdapter(kind) for kind in get_args(ResponseInputItemParam)],
        "anthropic": [TypeAdapter(MessageParam)],
        "gemini": [TypeAdapter(Content)],
    }


def misfits(kinds: list[TypeAdapter[Any]], wire: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message for message in wire if not any(fits(kind, message) for kind in kinds)]


def fits(kind: TypeAdapter[Any], message: dict[str, Any]) -> bool:
    try:
        read_whole(kind.validate_python(message))
    except ValidationError:
        return False
    return True


def read_whole(value: Any) -> None:
    """`Iterable` fields are validated only as they are read."""
    match value:
        case dict():
            for part in value.values():  # pyright: ignore[reportUnknownVariableType]  # any JSON
                read_whole(part)
        case list() | Iterator():
            for part in value:  # pyright: ignore[reportUnknownVariableType]  # any JSON
                read_whole(part)
        case _:
            pass


@pytest.mark.parametrize("wire_format", FORMATS)
def test_every_scenario_fits_the_types(adapters: Adapters, wire_format: Format) -> None:
    wires = {s["id"]: s["expected_wire"][wire_format] for s in scenarios()}

    assert [name for name, wire in wires.items() if misfits(adapters[wire_format], wire)] == []


@pytest.mark.parametrize("wire_format", FORMATS)
def test_what_is_rendered_of_any_conversation_fits_the_types(
    adapters: Adapters, wire_format: Format
) -> None:
    @settings(max_examples=50)
    @given(talks())
    def holds(messages: list[ChatMessage]) -> None:
        wire = written(messages, wire_format).messages

        assert misfits(adapters[wire_format], wire) == []

    holds()


def test_a_shared_case_fits_the_types_as_it_says(adapters: Adapters) -> None:
    other = {
        case["id"]
        for case in SHAPED
        if bool(misfits(adapters[case["provider"]], case["messages"])) == case.get("shape_ok", True)
    }

    assert other == set()
